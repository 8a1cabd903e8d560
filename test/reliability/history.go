package reliability

import (
	"fmt"
	"strings"
	"time"
)

// historyStep is the time that a line of a history describes.
const historyStep = 250 * time.Millisecond

// history describes what the hot tenants received in each step: for each policy the allowed requests of all requests, then the slowest
// answer and the numbers of decisions by source. Times are relative to the fault.
func (t *Trial) history() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d limiters; Redis broken at 0, repaired at %v. Hot tenants, allowed of all requests:\n", t.Limiters, microseconds(t.Repaired-t.Broken))
	step := historyStep.Microseconds()
	for from := t.Began; from < t.Ended; from += step {
		fmt.Fprintf(&b, "%8.2f s", microseconds(from-t.Broken).Seconds())
		sources, slowest := map[string]int{}, time.Duration(0)
		allowed, all := make([]int, len(t.Policies)), make([]int, len(t.Policies))
		for i := range t.Answers {
			a := &t.Answers[i]
			if !a.Hot || a.Sent < from || a.Sent >= from+step {
				continue
			}
			slowest = max(slowest, a.latency())
			all[a.Policy]++
			if a.Allowed {
				allowed[a.Policy]++
			}
			sources[a.Source+a.Failure]++
		}
		for i, p := range t.Policies {
			fmt.Fprintf(&b, "  %s %d/%d", p.name(), allowed[i], all[i])
		}
		fmt.Fprintf(&b, "  slowest %s", milliseconds(slowest))
		for _, source := range most(sources) {
			fmt.Fprintf(&b, "  %s %d", source, sources[source])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
