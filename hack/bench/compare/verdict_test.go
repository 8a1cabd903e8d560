package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/hack/bench/rlsload"
)

// turns returns a turn of one second for each number of decisions.
func turns(decisions ...int) []sample {
	var all []sample
	for _, n := range decisions {
		all = append(all, sample{
			Result:  &rlsload.Result{Allowed: n, Elapsed: time.Second, Latencies: []time.Duration{time.Millisecond}},
			limiter: time.Second, redis: time.Second / 2,
		})
	}
	return all
}

func TestCompare_ReportsSignificantDifferencesOnly(t *testing.T) {
	rate := figures()[0]
	tests := map[string]struct {
		base, head []sample
		tolerance  float64
		want       outcome
	}{
		"clearly lower":                        {turns(100, 101, 102, 103, 104), turns(90, 91, 92, 93, 94), 3, isWorse},
		"clearly higher":                       {turns(90, 91, 92, 93, 94), turns(100, 101, 102, 103, 104), 3, isBetter},
		"within the spread":                    {turns(90, 110, 95, 105, 100), turns(92, 96, 99, 101, 94), 0, isSame},
		"significant, but below the tolerance": {turns(1000, 1001, 1002, 1003, 1004), turns(990, 991, 992, 993, 994), 3, isSame},
		"the same difference, above it":        {turns(1000, 1001, 1002, 1003, 1004), turns(990, 991, 992, 993, 994), 0.5, isWorse},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := compare("a load", rate, &[2][]sample{test.base, test.head}, test.tolerance); got.outcome != test.want {
				t.Errorf("%+v, want %s", got, test.want)
			}
		})
	}
}

func TestVerdicts_KnowWhichDirectionIsBetter(t *testing.T) {
	more, fewer := turns(200, 201, 202, 203, 204), turns(100, 101, 102, 103, 104)
	got := results{"x": {fewer, more}}.verdicts([]load{{name: "x"}}, 3)
	want := map[string]outcome{"decisions/s": isBetter, "limiter-µs/op": isBetter, "redis-µs/op": isBetter, "p99-ms": isSame}
	if len(got) != len(want) {
		t.Errorf("%d verdicts, want %d", len(got), len(want))
	}
	for _, v := range got {
		if v.outcome != want[v.figure.unit] {
			t.Errorf("%s: %s, want %s", v.figure.unit, v.outcome, want[v.figure.unit])
		}
	}
}

func TestWriteRaw_WritesTheFormatOfGoBenchmarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raw")
	name := loads()[1].name // 64 in flight
	if err := (results{name: {turns(100), turns(200, 300)}}).writeRaw(path, [2]side{{name: "base"}, {name: "head"}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path + ".head")
	if err != nil {
		t.Fatal(err)
	}
	const want = "BenchmarkRLS/64_in_flight 200 200 decisions/s 5000 limiter-µs/op 2500 redis-µs/op 1 p99-ms"
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || strings.Join(strings.Fields(lines[0]), " ") != want {
		t.Errorf("%q, want two lines, the first %q", lines, want)
	}
}

func TestParse_RejectsInvalidFlags(t *testing.T) {
	for given, want := range map[string]string{
		"":                           "no revision to compare with",
		"-base main -rounds 4":       "-rounds: 4 must be at least 5",
		"-base main -slice 0s":       "-slice: 0s must be positive",
		"-base main -keys 0":         "-keys: 0 must be positive",
		"-base main -only none":      "-only none matches no load",
		"-base main -only (":         "-only: error parsing regexp",
		"-base main -tolerance -0.5": "-tolerance: -0.5 must not be negative",
		"-base main more":            `unexpected argument "more"`,
	} {
		t.Run(given, func(t *testing.T) {
			if _, err := parse(strings.Fields(given), t.Output()); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}
