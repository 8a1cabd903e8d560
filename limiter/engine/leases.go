package engine

import (
	"time"

	"github.com/weir-dev/weir/limiter/lease"
)

// fromLeases returns the results of a request whose charges all have the units that they need in leases of this replica, and takes these
// units. Otherwise it takes nothing.
func (e *Engine) fromLeases(matched []ruleCharge, peek bool, now time.Time) []Result {
	if e.leases == nil || peek {
		return nil
	}
	for i := range matched {
		if matched[i].charge.Lease == nil {
			return nil
		}
	}
	var usual [8]lease.Taken
	all := usual[:0]
	for i := range matched {
		taken, ok := e.leases.Take(&matched[i].charge, now)
		if !ok {
			for j := range all {
				e.leases.GiveBack(&all[j])
			}
			return nil
		}
		all = append(all, taken)
	}
	results := make([]Result, len(matched))
	for i := range matched {
		results[i] = matched[i].result(all[i].Decision(), SourceLease)
	}
	return results
}
