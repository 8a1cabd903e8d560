package failover

import (
	"context"
	"fmt"
	"slices"
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
)

// Recovering reports to the remote store what was spent locally while it, or a part of it, was unavailable, and begins the
// recovery window. An error means that the remote store has failed again.
func (s *Store) Recovering(ctx context.Context, unavailableFor time.Duration) error {
	if err := s.reportRound(ctx); err != nil {
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
	for before := 0; s.local.HasUnreported(); {
		unreported := s.local.Stats().Unreported
		if unreported == before || s.reportRound(ctx) != nil { // the rest is on a part that is unavailable, or the next outage has begun
			return
		}
		before = unreported
	}
}

func (s *Store) reportRound(ctx context.Context) error {
	if !s.local.HasUnreported() {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reportsInFlight)
	for _, key := range s.local.UnreportedKeys(reportsPerRound) {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return s.reportKey(ctx, key)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("report local usage to the store: %w", err)
	}
	return nil
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
	charge, unreported := s.local.TakeUnreported(key)
	if !unreported {
		return nil
	}
	uncounted, err := s.remote.ReportUsage(ctx, charge)
	if uncounted {
		s.local.ReturnUnreported(charge)
	}
	if !uncounted || err != nil {
		s.metrics.reported(charge.Cost, uncounted, err)
	}
	return err
}
