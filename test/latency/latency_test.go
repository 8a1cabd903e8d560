package latency

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorder is a test that records its errors.
type recorder struct {
	testing.TB
	failed   bool
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Failed() bool     { return r.failed }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any) {
	r.failed = true
	r.errors = append(r.errors, fmt.Sprint(args...))
}

func (r *recorder) end() {
	for _, cleanup := range slices.Backward(r.cleanups) {
		cleanup()
	}
}

func TestFailures_AreMarkedOnlyIfTheTestDoesNotFailInAnotherWay(t *testing.T) {
	now := times{stolen: 10, all: 1000}
	tests := map[string]struct {
		test func(r *recorder, f *Failures)
		want []string
	}{
		"no failure": {func(*recorder, *Failures) {}, nil},
		"only latency": {
			func(_ *recorder, f *Failures) { f.Errorf("p99 is %d ms", 30); f.Errorf("recovered late") },
			[]string{"LATENCY: 12 % of the CPU time was stolen: p99 is 30 ms", "LATENCY: 12 % of the CPU time was stolen: recovered late"},
		},
		"another failure before": {
			func(r *recorder, f *Failures) { r.Error("3 units over"); f.Errorf("p99 is 30 ms") }, []string{"3 units over", "p99 is 30 ms"},
		},
		"another failure after": {
			func(r *recorder, f *Failures) { f.Errorf("p99 is 30 ms"); r.Error("3 units over") }, []string{"3 units over", "p99 is 30 ms"},
		},
		"a failed cleanup": {
			func(r *recorder, f *Failures) {
				f.Errorf("p99 is 30 ms")
				r.Cleanup(func() { r.Error("the server failed") })
			}, []string{"the server failed", "p99 is 30 ms"},
		},
		"another failure only": {func(r *recorder, _ *Failures) { r.Error("3 units over") }, []string{"3 units over"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, reads := &recorder{}, 0
			f := of(r, func() times {
				reads++
				return times{stolen: now.stolen + int64(reads)*25, all: now.all + int64(reads)*200}
			})
			test.test(r, f)
			r.end()
			if diff := cmp.Diff(test.want, r.errors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPercent_ReadsWhatFormatWrites(t *testing.T) {
	for line, want := range map[string]int{
		Format(0): 0, "    a_test.go:1: " + Format(12) + "p99 is 30 ms": 12,
		"LATENCY: p99 is 30 ms": -1, "12 % of the CPU time was stolen: ": -1, "LATENCY: x % of the CPU time was stolen: ": -1,
	} {
		if got, ok := Percent(line); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v, want %d", line, got, ok, want)
		}
	}
}

func TestParseTimes_CountsNoTimeTwice(t *testing.T) {
	const before = "cpu  100 10 50 800 20 0 10 10 30 5\ncpu0 1 2 3\n" // 30 of 100 and 5 of 10 belong to guests
	const after = "cpu  110 10 60 850 20 0 20 30 90 9\ncpu0 1 2 3\n"
	want := times{stolen: 10, all: 1000}
	if got := parseTimes(before); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := parseTimes(after).stolenSince(parseTimes(before)); got != 20 {
		t.Errorf("%d %% stolen, want 20: 20 of 100 ticks", got)
	}
	for _, stat := range []string{"", "cpu 1 2 3", "cpu 1 2 3 4 5 6 7 x", "intr 1 2 3 4 5 6 7 8 9"} {
		if got := parseTimes(stat); got != (times{}) {
			t.Errorf("%q: %+v, want zero", stat, got)
		}
	}
	if got := (times{}).stolenSince(times{}); got != 0 {
		t.Errorf("%d %% stolen in no time", got)
	}
}
