package main

import (
	"sort"

	"github.com/anishathalye/porcupine"
)

// operations prepares the calls of one key for the search. What it says about calls of unknown
// outcome follows from the whole history, so it changes no verdict, only how long one takes:
//
//   - one whose value was read was done, with the version read, before the first such answer;
//   - another put can have been done with a version that somebody noticed and no known put has, and it
//     matters only if somebody noticed such a version after it began;
//   - a delete matters only if somebody saw the key absent after it began.
//
// A call that does not matter may as well not have been done.
func operations(calls []*call) []porcupine.Operation {
	known := knownVersions(calls)
	named := map[uint64]bool{}
	for _, c := range calls {
		if c.Told == "written" {
			named[*c.Version] = true
		}
	}
	for _, seen := range known {
		for _, version := range seen.versions {
			named[version] = true
		}
	}
	strange := map[uint64]int64{}
	absence := int64(-1)
	ifPresent := false
	for _, c := range calls {
		if version := c.noticed(); version != nil && !named[*version] {
			strange[*version] = later(strange[*version], c.end())
		}
		if c.sawAbsence() {
			absence = later(absence, c.end())
		}
		ifPresent = ifPresent || c.isUnknown() && c.ifPresent
	}
	var versions []uint64
	noticed := int64(-1)
	for version, end := range strange {
		versions = append(versions, version)
		noticed = later(noticed, end)
	}
	sort.Slice(versions, func(i, j int) bool { return versions[i] < versions[j] })
	if ifPresent {
		noticed = forever
	}

	var all []porcupine.Operation
	for _, c := range calls {
		s, end := step{call: c}, c.end()
		if c.isUnknown() {
			seen, wasSeen := known[c.putValue()]
			switch {
			case c.Ask == "put" && wasSeen:
				s.versions, s.mustBeDone, end = seen.versions, true, seen.end
			case c.Ask == "put":
				s.versions, s.maybeHidden, end = versions, true, noticed
			case c.Ask == "delete":
				end = absence
			default:
				continue
			}
			if end < *c.Begin && !s.mustBeDone {
				continue
			}
			// One that was seen before it began stays, and has no place.
			end = later(end, *c.Begin)
		}
		all = append(all, porcupine.Operation{
			ClientId: c.Client, Input: s, Call: *c.Begin, Return: end,
		})
	}
	return all
}

// sight is what reads say of one value.
type sight struct {
	// More than one can have no place in any order: a value is put once.
	versions []uint64
	// end of the first such read.
	end int64
}

func knownVersions(calls []*call) map[uint64]sight {
	known := map[uint64]sight{}
	for _, c := range calls {
		if c.Told != "found" {
			continue
		}
		seen, is := known[*c.Value]
		if !is || *c.End < seen.end {
			seen.end = *c.End
		}
		if !is || seen.versions[0] != *c.Version {
			seen.versions = append(seen.versions, *c.Version)
		}
		known[*c.Value] = seen
	}
	return known
}

func (c *call) putValue() uint64 {
	if c.Put == nil {
		return 0
	}
	return *c.Put
}

func (c *call) end() int64 {
	if c.End == nil {
		return forever
	}
	return *c.End
}

func later(one, other int64) int64 {
	if one > other {
		return one
	}
	return other
}
