package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
)

// forever is when a call ends that was never answered.
const forever = math.MaxInt64

// call is one line of a history: docs/TESTING.md says what each field means.
type call struct {
	Key      *uint64         `json:"key"`
	Client   int             `json:"client"`
	Node     int             `json:"node"`
	Stamped  bool            `json:"stamped"`
	Begin    *int64          `json:"begin"`
	End      *int64          `json:"end"`
	Ask      string          `json:"ask"`
	Put      *uint64         `json:"put"`
	If       json.RawMessage `json:"if"`
	Told     string          `json:"told"`
	Version  *uint64         `json:"version"`
	Value    *uint64         `json:"value"`
	Previous *uint64         `json:"previous"`
	Current  *uint64         `json:"current"`
	State    *uint64         `json:"state"`

	ifAbsent  bool
	ifPresent bool
	ifVersion *uint64
}

// read returns the calls of each key; a line that says too little is an error, not a call less.
func read(from io.Reader) (map[uint64][]*call, error) {
	keys := map[uint64][]*call{}
	lines := bufio.NewScanner(from)
	for number := 1; lines.Scan(); number++ {
		c := &call{}
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if err := c.complete(); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		keys[*c.Key] = append(keys[*c.Key], c)
	}
	return keys, lines.Err()
}

// complete reads the condition and looks whether what the answer needs is there.
func (c *call) complete() error {
	if c.Key == nil || c.Begin == nil {
		return fmt.Errorf("no key or no begin")
	}
	if (c.End == nil) != (c.Told == "unknown") || c.End != nil && *c.End < *c.Begin {
		return fmt.Errorf("a call ends, after it began, if and only if it was answered")
	}
	switch string(c.If) {
	case "", "null":
	case `"absent"`:
		c.ifAbsent = true
	case `"present"`:
		c.ifPresent = true
	default:
		if err := json.Unmarshal(c.If, &c.ifVersion); err != nil {
			return fmt.Errorf("the condition %s is none", c.If)
		}
	}
	needs := map[string][]*uint64{
		"put written": {c.Put, c.Version}, "put refused": {c.Put}, "put unknown": {c.Put},
		"delete deleted": {c.Version, c.Previous}, "delete absent": {}, "delete refused": {},
		"delete unknown": {},
		"get found":      {c.Version, c.Value}, "get absent": {}, "get unknown": {},
	}
	fields, known := needs[c.Ask+" "+c.Told]
	if !known {
		return fmt.Errorf("%q cannot be answered %q", c.Ask, c.Told)
	}
	for _, field := range fields {
		if field == nil {
			return fmt.Errorf("%s %s lacks a number", c.Ask, c.Told)
		}
	}
	return nil
}

func (c *call) isUnknown() bool { return c.Told == "unknown" }

// noticed returns the version that the answer, or the condition of a call without one, says the key
// had before it, or nil.
func (c *call) noticed() *uint64 {
	switch {
	case c.Told == "found":
		return c.Version
	case c.Told == "refused":
		return c.Current
	case c.isUnknown():
		return c.ifVersion
	}
	return c.Previous
}

// sawAbsence tells whether the key was absent at some moment of the call, by its answer or, if it was
// done at all, by its condition.
func (c *call) sawAbsence() bool {
	switch c.Told {
	case "absent":
		return true
	case "written":
		return c.Previous == nil
	case "refused":
		return c.Current == nil
	}
	return c.isUnknown() && c.ifAbsent
}

func (c *call) String() string {
	end := "..."
	if c.End != nil {
		end = fmt.Sprint(*c.End)
	}
	text := fmt.Sprintf("%d-%s client %d node %d: %s", *c.Begin, end, c.Client, c.Node, c.Ask)
	if c.Put != nil {
		text += fmt.Sprintf(" %d", *c.Put)
	}
	if len(c.If) > 0 {
		text += fmt.Sprintf(" if %s", c.If)
	}
	text += " -> " + c.Told
	for _, field := range []struct {
		name   string
		number *uint64
	}{{"value", c.Value}, {"version", c.Version}, {"previous", c.Previous}, {"current", c.Current}} {
		if field.number != nil {
			text += fmt.Sprintf(" %s %d", field.name, *field.number)
		}
	}
	return text
}

func sortedKeys(keys map[uint64][]*call) []uint64 {
	var sorted []uint64
	for key := range keys {
		sorted = append(sorted, key)
	}
	sort.Slice(sorted, func(i, j int) bool { return sorted[i] < sorted[j] })
	return sorted
}
