package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
)

// reportTries bounds how often ReportUsage lowers the cost because the counter changed meanwhile.
const reportTries = 3

// ReportUsage counts units that were spent elsewhere while Redis was unavailable, up to the limit. It also reaches a Redis
// that is recovering, see [OutageObserver]. If uncounted is true, nothing was counted, and the caller can try again. An error
// with uncounted false means that the units may have been counted.
func (s *Store) ReportUsage(_ context.Context, charge limiter.Charge) (uncounted bool, err error) {
	deadline := time.Now().Add(s.timeout)
	for range reportTries {
		if charge.Cost <= 0 {
			return false, nil
		}
		b := s.batchers.forKey(deadline, charge.Key)
		if b.breaker.rejects(reportsUsage) || b.breaker != nil && b.breaker.keys.Rejects(charge.Key) {
			return true, nil
		}
		decisions, err := b.do(&call{
			mode: modeSpend, charges: []limiter.Charge{charge}, began: deadline.Add(-s.timeout), deadline: deadline, purpose: reportsUsage,
		})
		if err != nil {
			return errors.Is(err, limiter.ErrOverloaded) || !redisclient.MayHaveRun(err), err
		}
		if decisions[0].Allowed {
			return false, nil
		}
		charge.Cost = decisions[0].Remaining
	}
	return false, nil
}
