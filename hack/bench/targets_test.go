package main

import (
	"math"
	"strings"
	"testing"
)

func TestTarget_ComparesTheFigureWithTheBound(t *testing.T) {
	tests := map[string]struct {
		relation relation
		figure   float64
		want     string
	}{
		"at least: above": {atLeast, 2.5, "met"},
		"at least: equal": {atLeast, 2, "met"},
		"at least: below": {atLeast, 1.99, "NOT met"},
		"at most: below":  {atMost, 1, "met"},
		"at most: equal":  {atMost, 2, "met"},
		"at most: above":  {atMost, 2.01, "NOT met"},
		"above: above":    {above, 2.01, "met"},
		"above: equal":    {above, 2, "NOT met"},
		"not measured":    {atMost, math.NaN(), "not measured"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := target{figure: test.figure, want: bound{value: 2, relation: test.relation}}
			if got := b.verdict(); got != test.want {
				t.Errorf("%v %s 2: %s, want %s", test.figure, test.relation, got, test.want)
			}
			if b.met() != (test.want == "met") {
				t.Error("met and verdict differ")
			}
		})
	}
}

func TestTargets_UseFiguresThatAreMeasured(t *testing.T) {
	m := measured{throughput: results{}, allocations: map[string]allocation{bare: {}}, memory: memory{key: map[string]float64{}, unit: map[string]float64{}}}
	for _, c := range contenders() {
		for _, callers := range []int{1, 64, 512} {
			m.throughput.add(callers, c.name, sample{decisions: 1, elapsed: 1, latency: 1})
		}
		m.allocations[c.name] = allocation{}
		m.memory.key[c.name], m.memory.unit[c.name] = 1, 1
	}
	seen := map[string]bool{}
	for _, b := range m.targets() {
		if math.IsNaN(b.figure) {
			t.Errorf("%s has no figure", b.name)
		}
		if seen[b.name] {
			t.Errorf("%s is listed twice", b.name)
		}
		seen[b.name] = true
	}
	if want := 2*2*5 + 1 + 5 + 4 + 1 + 5 + 5; len(seen) != want {
		t.Errorf("%d targets, want %d", len(seen), want)
	}
	for _, b := range (measured{}).targets() {
		if b.verdict() != "not measured" {
			t.Errorf("%s: %s, want not measured", b.name, b.verdict())
		}
	}
}

func TestTargetTable_ShowsVerdicts(t *testing.T) {
	targets := []target{
		{name: "throughput", figure: 2.345, want: bound{2, atLeast, "×"}},
		{name: "memory", figure: 13, want: bound{12, atMost, " bytes"}},
		{name: "time", figure: math.NaN(), want: bound{5, atMost, " s"}},
	}
	got := render(t, targetTable(targets))
	for _, line := range []string{"throughput ≥ 2× 2.35× met", "memory ≤ 12 bytes 13.00 bytes NOT met", "time ≤ 5 s – not measured"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), line) {
			t.Errorf("no %q in:\n%s", line, got)
		}
	}
	if countNotMet(targets) != 2 {
		t.Errorf("%d targets are not met, want 2", countNotMet(targets))
	}
}
