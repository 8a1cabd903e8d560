package main

import (
	"math"
	"strings"
	"testing"
)

func TestABarIsMet(t *testing.T) {
	tests := map[string]struct {
		relation relation
		figure   float64
		want     string
	}{
		"at least, and it is more":           {atLeast, 2.5, "met"},
		"at least, and it is just that":      {atLeast, 2, "met"},
		"at least, and it is less":           {atLeast, 1.99, "NOT met"},
		"at most, and it is less":            {atMost, 1, "met"},
		"at most, and it is just that":       {atMost, 2, "met"},
		"at most, and it is more":            {atMost, 2.01, "NOT met"},
		"above, and it is":                   {above, 2.01, "met"},
		"above, and it is just that":         {above, 2, "NOT met"},
		"what was not measured has not been": {atMost, math.NaN(), "not measured"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := bar{figure: test.figure, wanted: wanted{bound: 2, relation: test.relation}}
			if got := b.verdict(); got != test.want {
				t.Errorf("%v %s 2: %s, want %s", test.figure, test.relation, got, test.want)
			}
			if b.met() != (test.want == "met") {
				t.Error("met and the verdict disagree")
			}
		})
	}
}

func TestEveryBarReadsAFigureThatIsMeasured(t *testing.T) {
	m := measured{throughput: results{}, allocations: map[string]allocation{bare: {}}, memory: memory{key: map[string]float64{}, unit: map[string]float64{}}}
	for _, c := range contenders() {
		for _, callers := range []int{1, 64, 512} {
			m.throughput.add(callers, c.name, sample{decisions: 1, elapsed: 1, latency: 1})
		}
		m.allocations[c.name] = allocation{}
		m.memory.key[c.name], m.memory.unit[c.name] = 1, 1
	}
	seen := map[string]bool{}
	for _, b := range m.bars() {
		if math.IsNaN(b.figure) {
			t.Errorf("%s has no figure", b.name)
		}
		if seen[b.name] {
			t.Errorf("%s is there twice", b.name)
		}
		seen[b.name] = true
	}
	if want := 2*2*5 + 1 + 5 + 4 + 1 + 5 + 5; len(seen) != want {
		t.Errorf("%d bars, want %d", len(seen), want)
	}
	for _, b := range (measured{}).bars() {
		if b.verdict() != "not measured" {
			t.Errorf("%s: %s, though nothing was measured", b.name, b.verdict())
		}
	}
}

func TestBarsReadInATable(t *testing.T) {
	bars := []bar{
		{name: "throughput", figure: 2.345, wanted: wanted{2, atLeast, "×"}},
		{name: "memory", figure: 13, wanted: wanted{12, atMost, " bytes"}},
		{name: "time", figure: math.NaN(), wanted: wanted{5, atMost, " s"}},
	}
	got := render(t, barTable(bars))
	for _, line := range []string{"throughput ≥ 2× 2.35× met", "memory ≤ 12 bytes 13.00 bytes NOT met", "time ≤ 5 s – not measured"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), line) {
			t.Errorf("no %q in:\n%s", line, got)
		}
	}
	if notMet(bars) != 2 {
		t.Errorf("%d are not met, want 2", notMet(bars))
	}
}
