package main

import "github.com/anishathalye/porcupine"

// state is what a key holds between two calls. Offsets below least are taken: versions only rise.
type state struct {
	present bool
	value   uint64
	// hidden: the version is one that no answer names.
	hidden  bool
	version uint64
	least   uint64
}

// step is a call with all that the whole history says about it.
type step struct {
	*call
	// versions that it may have written, if its own answer says none; with maybeHidden also one
	// that nobody was ever told.
	versions    []uint64
	maybeHidden bool
	// mustBeDone: somebody saw its effect.
	mustBeDone bool
}

// model is one key. A call of unknown outcome leads to several states: not done, or done with one
// of the versions that it can have had.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{state{}} },
		Step: func(before, input, _ interface{}) []interface{} {
			var after []interface{}
			for _, s := range before.(state).after(input.(step)) {
				after = append(after, s)
			}
			return after
		},
	}
	return m.ToModel()
}

func (s state) after(c step) []state {
	switch c.Told {
	case "found":
		return s.provided(s.has(*c.Version) && s.value == *c.Value)
	case "absent":
		return s.provided(!s.present)
	case "refused":
		return s.provided(s.was(c.Current) && !s.meets(c.call))
	case "deleted":
		return s.log(*c.Version, state{}, s.was(c.Previous) && s.meets(c.call))
	case "written":
		put := state{present: true, value: *c.Put, version: *c.Version}
		return s.log(*c.Version, put, s.was(c.Previous) && s.meets(c.call))
	}
	var after []state
	if !c.mustBeDone {
		after = append(after, s)
	}
	if c.Ask == "get" || !s.meets(c.call) {
		return after
	}
	if c.Ask == "delete" {
		if s.present {
			after = append(after, state{least: s.least})
		}
		return after
	}
	for _, version := range c.versions {
		put := state{present: true, value: *c.Put, version: version}
		after = append(after, s.log(version, put, true)...)
	}
	if c.maybeHidden {
		after = append(after, state{present: true, value: *c.Put, hidden: true, least: s.least})
	}
	return after
}

func (s state) provided(holds bool) []state {
	if !holds {
		return nil
	}
	return []state{s}
}

func (s state) log(at uint64, next state, holds bool) []state {
	if !holds || at < s.least {
		return nil
	}
	next.least = at + 1
	return []state{next}
}

func (s state) has(version uint64) bool {
	return s.present && !s.hidden && s.version == version
}

// was tells whether this is what a write found; nil is an absent key.
func (s state) was(version *uint64) bool {
	if version == nil {
		return !s.present
	}
	return s.has(*version)
}

func (s state) meets(c *call) bool {
	switch {
	case c.ifAbsent:
		return !s.present
	case c.ifPresent:
		return s.present
	case c.ifVersion != nil:
		return s.has(*c.ifVersion)
	}
	return true
}
