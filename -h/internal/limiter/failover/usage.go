package failover

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/wait"
)

const (
	// recoveryWindow is how long, after an outage, a decision of the remote store alone is not enough, see
	// decideWhileRecovering. It is longer than the time between the first and the last replica that detects the recovery.
	recoveryWindow = 500 * time.Millisecond
	// A round reports the usage of up to reportsPerRound counters, reportsInFlight of them at a time.
	reportsPerRound, reportsInFlight = 20_000, 128
	// reportPause is the time after a round with reports that this overloaded process could not make.
	reportPause = 100 * time.Millisecond
	// recoveryTime bounds the reports that every request waits for. The rest is reported when requests need it, and in the background.
	recoveryTime = 250 * time.Millisecond
	// stragglerPause is the time between the rounds of reports of counters that are unavailable while the rest is not.
	stragglerPause = time.Second
)

// Recovering resets the counters whose reset waited. Then it reports to the remote store what was spent locally while it, or a part of it, was
// unavailable, and begins the recovery window. It takes recoveryTime and the timeout of a call at most, and reports the rest later: a counter that
// cannot be reported does not keep the others waiting. An error means that a report failed. That this process is overloaded is no
// such error: until the recovery has ended, it decides without the store, which takes more processor time, and would prolong the overload.
func (s *Store) Recovering(ctx context.Context, unavailableFor time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, recoveryTime)
	defer cancel()
	s.resetPending(bounded)
	_, err := s.reportRound(bounded)
	s.recoveryUntil.Store(s.clock().Add(min(2*unavailableFor, recoveryWindow)).UnixNano())
	switch {
	case !s.local.HasUnreported():
	case err != nil:
		s.reportLater()
	default:
		go s.reportRest(ctx)
	}
	return err
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
	returns := false
	for i := range charges { // all of them at the same time
		returns = s.local.Returns(charges[i].Key, recoveryWindow) || returns
	}
	return returns
}

// reportLater reports in the background what was spent locally on counters that are unavailable now. Only one such task waits at a time.
func (s *Store) reportLater() {
	if !s.reportsLater.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(stragglerPause, func() {
		s.reportsLater.Store(false)
		if !s.local.HasUnreported() {
			return
		}
		if !s.outages.active.Load() { // else the end of the outage does
			_, _ = s.reportRound(context.Background()) // those that cannot be reported stay unreported
		}
		s.reportLater()
	})
}

// reportRest continues until every unit that can be reported is. Requests meanwhile report the counters that they need,
// see reportUsage.
func (s *Store) reportRest(ctx context.Context) {
	overloaded := false
	for previous := 0; s.local.HasUnreported(); {
		unreported := s.local.Stats().Unreported
		if unreported == previous && !overloaded { // the rest is unavailable
			s.reportLater()
			return
		}
		overloaded, _ = s.reportRound(ctx) // without progress, the next round is the last
		previous = unreported
		if overloaded && !wait.Sleep(ctx, reportPause) {
			return
		}
	}
}

// reportRound reports a number of counters until ctx ends. If overloaded is true, this process could not make some of the calls, and these units
// stay unreported. An error is that of one of the reports; the others are made nevertheless.
func (s *Store) reportRound(ctx context.Context) (overloaded bool, err error) {
	if !s.local.HasUnreported() {
		return false, nil
	}
	var notMade atomic.Bool
	var group errgroup.Group
	group.SetLimit(reportsInFlight)
	for _, key := range s.local.UnreportedKeys(reportsPerRound) {
		if ctx.Err() != nil {
			break
		}
		if s.remote.Unavailable(key) && !s.outages.active.Load() {
			continue
		}
		group.Go(func() error {
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
