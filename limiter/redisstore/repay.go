package redisstore

import (
	"context"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// repayTries bounds how often a charge is made smaller because others have spent meanwhile.
const repayTries = 3

// ReportUsage counts as much of a charge as fits: units that were spent elsewhere while Redis was away. It reaches a Redis that
// is about to be back, see [OutageObserver]. When uncounted is true, nothing was counted and the charge may be tried again; an
// error without it leaves open whether it was.
func (s *Store) ReportUsage(_ context.Context, charge limiter.Charge) (uncounted bool, err error) {
	deadline := time.Now().Add(s.timeout)
	for range repayTries {
		if charge.Cost <= 0 {
			return false, nil
		}
		b := s.calls.of(deadline, charge.Key)
		if b.breaker.refuses(true) {
			return true, nil
		}
		decisions, err := b.do(&call{mode: "spend", charges: []limiter.Charge{charge}, deadline: deadline, repays: true})
		if err != nil {
			return !perhapsRan(err), err
		}
		if decisions[0].Allowed {
			return false, nil
		}
		charge.Cost = decisions[0].Remaining
	}
	return false, nil
}

// perhapsRan says whether a call that failed so may have been carried out.
func perhapsRan(err error) bool {
	switch kindOf(err) {
	case kindTimeout, kindCanceled, kindDisconnected:
		return true
	default:
		return false
	}
}
