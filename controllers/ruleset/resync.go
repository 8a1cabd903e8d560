package ruleset

import (
	"time"

	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// Waits until the next reconciliation. An edit is reconciled without them.
const (
	minPendingWait     = 100 * time.Millisecond // for the replicas to enforce a published rule set
	maxPendingWait     = 2 * time.Second
	minUnavailableWait = time.Second // for Redis to become available
	maxUnavailableWait = 5 * time.Second
)

// resyncInterval determines when to reconcile a Limiter again: soon after a change, then with growing waits while replicas or
// Redis are waited for, and after the resync period when nothing is pending.
type resyncInterval struct {
	revision    string
	unavailable bool
	wait        time.Duration
}

func (r *resyncInterval) next(set *selection.RuleSet, d publish.Delivery, resync time.Duration) time.Duration {
	if set.Revision != r.revision || d.Unavailable() != r.unavailable {
		*r = resyncInterval{revision: set.Revision, unavailable: d.Unavailable()}
	}
	switch {
	case d.Unavailable():
		r.wait = min(max(2*r.wait, minUnavailableWait), maxUnavailableWait)
	case !d.EnforcedAll(set) || d.Starting:
		r.wait = min(max(2*r.wait, minPendingWait), maxPendingWait)
	default:
		r.wait = 0
		return resync
	}
	return min(r.wait, resync)
}
