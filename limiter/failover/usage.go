package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/limiter"
)

const (
	// recoveryWindow is how long, after an outage, a decision of the remote store alone is not enough, see
	// decideWhileRecovering. It is longer than the time between the first and the last replica that detects the recovery.
	recoveryWindow = 500 * time.Millisecond
	// A round reports the usage of up to reportsPerRound counters, reportsInFlight of them at a time.
	reportsPerRound, reportsInFlight = 20_000, 128
	// reportPause is the time after a round with reports that this overloaded process could not make.
	reportPause = 100 * time.Millisecond
)

// Recovering resets the counters whose reset waited. Then it reports to the remote store what was spent locally while it, or a part of it, was
// unavailable, and begins the recovery window. An error means that the remote store has failed again. That this process is overloaded is no
// such error: until the recovery has ended, it decides without the store, which takes more processor time, and would prolong the overload.
func (s *Store) Recovering(ctx context.Context, unavailableFor time.Duration) error {
	s.resetPending(ctx)
	if _, err := s.reportRound(ctx); err != nil {
		return err
	}
	s.recoveryUntil.Store(s.clock().Add(min(2*unavailableFor, recoveryWindow)).UnixNano())
	if s.local.HasUnreported() {
		go s.reportRest(ctx)
	}
	return nil
}

// inRecoveryWindow reports whether other replicas may not have detected yet that the counters of charges are available
// again. The counters may also be available in another part of the store than the one that failed: in a Redis Cluster, a
// replica node takes over.
func (s *Store) inRecoveryWindow(now time.Time, charges []limiter.Charge) bool {
	if now.UnixNano() < s.recoveryUntil.Load() {
		return true
	}
	if !s.outages.active.Load() {
		return false
	}
	return slices.ContainsFunc(charges, func(c limiter.Charge) bool { return s.local.SpentWithin(c.Key, recoveryWindow) })
}

// reportRest continues until every unit that can be reported is. Requests meanwhile report the counters that they need,
// see reportUsage.
func (s *Store) reportRest(ctx context.Context) {
	overloaded := false
	for before := 0; s.local.HasUnreported(); {
		unreported := s.local.Stats().Unreported
		if unreported == before && !overloaded { // the rest is on a part that is unavailable
			return
		}
		var err error
		if overloaded, err = s.reportRound(ctx); err != nil { // the next outage has begun
			return
		}
		before = unreported
		if overloaded && !sleep(ctx, reportPause) {
			return
		}
	}
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// reportRound reports a number of counters. If overloaded is true, this process could not make some of the calls, and these units
// stay unreported.
func (s *Store) reportRound(ctx context.Context) (overloaded bool, err error) {
	if !s.local.HasUnreported() {
		return false, nil
	}
	var notMade atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reportsInFlight)
	for _, key := range s.local.UnreportedKeys(reportsPerRound) {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := s.reportKey(ctx, key)
			if errors.Is(err, limiter.ErrOverloaded) {
				notMade.Store(true)
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return false, fmt.Errorf("report local usage to the store: %w", err)
	}
	return notMade.Load(), nil
}

// reportUsage reports what was spent locally on the counters of charges, before the remote store decides on them.
func (s *Store) reportUsage(ctx context.Context, charges []limiter.Charge) {
	if !s.local.HasUnreported() {
		return
	}
	for i := range charges {
		_ = s.reportKey(ctx, charges[i].Key) // units that cannot be reported stay unreported, or are in the metric as unknown
	}
}

// reportKey reports what was spent locally on the counter at key.
func (s *Store) reportKey(ctx context.Context, key string) error {
	report, unreported := s.local.TakeUnreported(key)
	if !unreported {
		return nil
	}
	uncounted, err := s.remote.ReportUsage(ctx, report.Charge)
	if uncounted {
		s.local.ReturnUnreported(report)
	}
	if !uncounted || err != nil {
		s.metrics.reported(report.Cost, uncounted, err)
	}
	return err
}
