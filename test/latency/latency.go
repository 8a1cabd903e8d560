// Package latency separates the failures of a test that a host explains from all other failures. On a virtual machine, the host can give
// CPU time to other machines. Then everything takes longer, and a test that measures latency fails although Weir works.
//
// A test reports these failures, and only these, with [Failures.Errorf]. If the test does not fail in another way, each is printed with
// [Mark] and the stolen share of the CPU time. The command hack/retry decides from the marks whether a failed run of all tests is repeated.
package latency

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Mark begins a failure that only concerns latency.
const Mark = "LATENCY: "

// Failures are the failures of one test that concern latency. Its methods are safe for concurrent use.
type Failures struct {
	before times
	mu     sync.Mutex
	all    []string
}

// Of returns the Failures of t. Call it first in a test: it reports at the end, after all other cleanups, so that it knows whether the test
// has also failed in another way.
func Of(t testing.TB) *Failures {
	t.Helper()
	return of(t, readTimes)
}

func of(t testing.TB, read func() times) *Failures {
	t.Helper()
	f := &Failures{before: read()}
	t.Cleanup(func() {
		t.Helper()
		prefix := ""
		if !t.Failed() {
			prefix = Format(read().stolenSince(f.before))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, failure := range f.all {
			t.Error(prefix + failure)
		}
	})
	return f
}

// Errorf records a failure. It must only describe a duration that is too long.
func (f *Failures) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// Format returns the beginning of a failure while percent of the CPU time was stolen.
func Format(percent int) string {
	return fmt.Sprintf("%s%d %% of the CPU time was stolen: ", Mark, percent)
}

// Percent returns the share that Format has written into a line.
func Percent(line string) (percent int, ok bool) {
	_, rest, found := strings.Cut(line, Mark)
	number, _, isShare := strings.Cut(rest, " % of the CPU time was stolen: ")
	percent, err := strconv.Atoi(number)
	return percent, found && isShare && err == nil
}

// times are CPU times of the machine since it was started, in ticks.
type times struct{ stolen, all int64 }

// readTimes returns zero on a system without /proc/stat. There, no time counts as stolen.
func readTimes() times {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return times{}
	}
	return parseTimes(string(text))
}

// parseTimes reads the first line of /proc/stat: cpu user nice system idle iowait irq softirq steal guest guest_nice. Guest times are part
// of user and nice.
func parseTimes(stat string) times {
	const steal = 8
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) <= steal || fields[0] != "cpu" {
		return times{}
	}
	var t times
	for i, field := range fields[1 : steal+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return times{}
		}
		t.all += ticks
		if i+1 == steal {
			t.stolen = ticks
		}
	}
	return t
}

// stolenSince returns the stolen share of the CPU time since before, in percent, rounded down.
func (t times) stolenSince(before times) int {
	all := t.all - before.all
	if all <= 0 {
		return 0
	}
	return int(100 * (t.stolen - before.stolen) / all)
}
