package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Survivor explains mutants that no test kills.
type Survivor struct {
	File string `yaml:"file"` // relative to the root of the module
	In   string `yaml:"in"`   // the function around it; empty for any
	Line string `yaml:"line"` // the line before the mutation, without indentation
	// Mutants are the lines after the mutation.
	Mutants []string `yaml:"mutants"`
	// Equivalent: no test can notice the mutant. Such a mutant does not count. Other survivors count as survived.
	Equivalent bool   `yaml:"equivalent"`
	Reason     string `yaml:"reason"`
}

func (s *Survivor) matches(m *Mutant) bool {
	return s.File == m.File && (s.In == "" || s.In == m.In) && oneLine(s.Line) == m.Before &&
		slices.ContainsFunc(s.Mutants, func(after string) bool { return oneLine(after) == m.After })
}

// readSurvivors reads the explanations. Every one must be complete.
func readSurvivors(file string) ([]*Survivor, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var survivors []*Survivor
	if err := decoder.Decode(&survivors); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for i, s := range survivors {
		if s.File == "" || s.Line == "" || len(s.Mutants) == 0 || s.Reason == "" {
			return nil, fmt.Errorf("%s: entry %d needs file, line, mutants and reason", file, i+1)
		}
	}
	return survivors, nil
}

// explained pairs surviving mutants with their explanations.
type explained map[*Mutant]*Survivor

// explain returns the explanations of mutants, and one problem for each explanation that is wrong: its mutant does not exist,
// or a test kills it. whole has the packages of which all mutants are known.
func explain(survivors []*Survivor, mutants []*Mutant, whole []string) (explained, []string) {
	found := explained{}
	var problems []string
	for _, s := range survivors {
		for _, after := range s.Mutants {
			one := *s
			one.Mutants = []string{after}
			exists := false
			for _, m := range mutants {
				if !one.matches(m) {
					continue
				}
				exists = true
				switch {
				case m.alive():
					found[m] = s
				case m.counts():
					problems = append(problems, fmt.Sprintf("%s: %q is killed, remove it: %s → %s", s.File, m.Killer, oneLine(s.Line), oneLine(after)))
				case m.Status == NotViable:
					problems = append(problems, fmt.Sprintf("%s: the mutant does not compile, remove it: %s → %s", s.File, oneLine(s.Line), oneLine(after)))
				}
			}
			if !exists && slices.Contains(whole, folderOf(s.File)) {
				problems = append(problems, fmt.Sprintf("%s: there is no such mutant, remove it: %s → %s", s.File, oneLine(s.Line), oneLine(after)))
			}
		}
	}
	return found, problems
}
