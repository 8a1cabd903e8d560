package main

import (
	"io"
	"slices"
	"testing"
)

func mutantsAt(statuses ...Status) []*Mutant {
	var mutants []*Mutant
	for i, s := range statuses {
		mutants = append(mutants, &Mutant{Package: "p", File: "p/a.go", In: "f", Line: 10 + i, Before: "a++", After: "a--", Status: s})
	}
	number(mutants)
	return mutants
}

// Each run adds to the results: -again selects what survived any run, -rest what no run has tested.
func TestRunner_SaveAddsToTheResultsOfEarlierRuns(t *testing.T) {
	r := &runner{root: t.TempDir(), out: io.Discard}
	for _, run := range [][]Status{{Killed, "", Survived, ""}, {"", NotCovered, Killed, ""}} {
		earlier, err := r.results([]string{"p"})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.save(mutantsAt(run...), earlier, []string{"p"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		options options
		lines   []int
	}{
		{options{}, []int{10, 11, 12, 13}},
		{options{again: true}, []int{11}},
		{options{rest: true}, []int{13}},
		{options{rest: true, sample: 1}, []int{13}},
	} {
		r.options = test.options
		selected, err := r.choose(mutantsAt("", "", "", ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		var lines []int
		for _, m := range selected {
			lines = append(lines, m.Line)
		}
		if !slices.Equal(lines, test.lines) {
			t.Errorf("%+v: selected lines %v, want %v", test.options, lines, test.lines)
		}
	}
	earlier, err := r.results([]string{"p"})
	if err != nil {
		t.Fatal(err)
	}
	now := mutantsAt("", "", Survived, "", Killed)
	complete(now, earlier)
	for i, want := range []Status{Killed, NotCovered, Survived, "", Killed} {
		if now[i].Status != want {
			t.Errorf("mutant %d: %q, want %q", i, now[i].Status, want)
		}
	}
	if err := r.save(mutantsAt(""), earlier, []string{"p"}); err != nil { // the other mutants no longer exist
		t.Fatal(err)
	}
	if earlier, err = r.results([]string{"p"}); err != nil || len(earlier) != 1 {
		t.Errorf("%d results, %v; want that of the mutant that still exists", len(earlier), err)
	}
}
