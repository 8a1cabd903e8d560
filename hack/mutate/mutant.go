package main

import (
	"bytes"
	"strconv"
	"strings"
)

// Status is the outcome of a mutant.
type Status string

const (
	// Killed: a test failed.
	Killed Status = "killed"
	// TimedOut: the tests did not end in a multiple of their usual time. It counts as killed.
	TimedOut Status = "timed out"
	// Survived: all tests passed.
	Survived Status = "survived"
	// NotCovered: the mutant survived, because no test of the package executes the line.
	NotCovered Status = "not covered"
	// NotViable: the mutant does not compile. It does not count.
	NotViable Status = "not viable"
)

// Mutant is one change to one file.
type Mutant struct {
	Package string `json:"package"` // folder of the package, relative to the root of the module
	File    string `json:"file"`    // relative to the root of the module
	Line    int    `json:"line"`
	In      string `json:"in,omitempty"`  // the function around it
	Rule    string `json:"rule"`          // the operator of the mutation tool
	Before  string `json:"before"`        // the line, without indentation
	After   string `json:"after"`         // the changed line, or dropped
	Nth     int    `json:"nth,omitempty"` // counts the mutants of the same text in the same function, from 0
	Status  Status `json:"status,omitempty"`
	Killer  string `json:"killer,omitempty"` // the first test that failed

	uncovered bool // no test of the package executes the line

	offset, length int
	text           string // replaces length bytes at offset
	group          *edit  // replaces more than the operator, if only parentheses keep the grouping of the source

	id                  int // in the schema, see newSchema; 0: needs a build of its own
	firstLine, lastLine int // of the site in the schema
}

// edit replaces length bytes at offset.
type edit struct {
	offset, length int
	text           string
}

func (m *Mutant) edit() edit {
	if m.group != nil {
		return *m.group
	}
	return edit{m.offset, m.length, m.text}
}

// dropped is the text after the mutation that removes a statement.
const dropped = "(dropped)"

// alive reports whether no test noticed the mutant.
func (m *Mutant) alive() bool { return m.Status == Survived || m.Status == NotCovered }

// counts reports whether the mutant is part of the score.
func (m *Mutant) counts() bool { return m.Status != NotViable && m.Status != "" }

// isLua reports whether the mutant changes a Lua script.
func (m *Mutant) isLua() bool { return strings.HasSuffix(m.File, ".lua") }

// apply returns the file with the mutation.
func (m *Mutant) apply(source []byte) []byte {
	e := m.edit()
	return bytes.Join([][]byte{source[:e.offset], source[e.offset+e.length:]}, []byte(e.text))
}

// show sets Line, Before and After from the source.
func (m *Mutant) show(source []byte) {
	e := m.edit()
	m.Line = 1 + bytes.Count(source[:m.offset], []byte("\n"))
	start := 1 + bytes.LastIndexByte(source[:e.offset], '\n')
	end := e.offset + e.length
	if next := bytes.IndexByte(source[end:], '\n'); next >= 0 {
		end += next
	} else {
		end = len(source)
	}
	m.Before = oneLine(string(source[start:end]))
	m.After = oneLine(string(source[start:e.offset]) + e.text + string(source[e.offset+e.length:end]))
	if m.After == "" {
		m.After = dropped
	}
}

// oneLine joins lines and removes indentation.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// key identifies a mutant in a file, independent of its line number.
func (m *Mutant) key() string {
	return strings.Join([]string{m.File, m.In, m.Before, m.After, strconv.Itoa(m.Nth)}, "\x00")
}

// number sets Nth, so that no two mutants have the same key.
func number(mutants []*Mutant) {
	seen := map[string]int{}
	for _, m := range mutants {
		m.Nth = 0
		key := m.key()
		m.Nth = seen[key]
		seen[key]++
	}
}
