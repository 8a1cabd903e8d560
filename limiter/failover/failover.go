// Package failover decides charges while the store that counts them is unavailable.
//
// A [Store] passes charges on to a remote store as long as that is available. While it is not, the Store applies the
// OnStoreFailure of each charge: it decides on this replica's share of the limit (local mode), allows, or refuses. When the
// remote store is available again, the Store reports to it what was spent locally. docs/adr/0012 has the reasons.
package failover

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
)

// Remote is a store that can become unavailable.
type Remote interface {
	limiter.Store
	// Unavailable reports whether the counter at key is unavailable now. It makes no call.
	Unavailable(key string) bool
	// ReportUsage counts units that were spent elsewhere while the counter was unavailable: as many of the charge as fit under
	// the limit. If uncounted is true, no unit was counted; err is nil if that is because the counter is still unavailable. An
	// error with uncounted false means that the units may or may not have been counted.
	ReportUsage(ctx context.Context, charge limiter.Charge) (uncounted bool, err error)
	// ResetOnce resets the counter at key after an outage, unless any replica has done so with the same id. Other replicas keep what they have
	// spent locally.
	ResetOnce(ctx context.Context, key, id string) error
}

// Selective is a [Remote] that can be unavailable for some kinds of counters, although it is available for others.
type Selective interface {
	Remote
	// UnavailableFor is Unavailable for the counter of a charge. It makes no call.
	UnavailableFor(charge *limiter.Charge) bool
}

// ObserveCall receives the duration and the error of a call of the remote store. The op is "spend" or "peek".
type ObserveCall func(op string, took time.Duration, err error)

// Store is a [limiter.Store] that goes on deciding while its remote store is unavailable. It is safe for concurrent use.
//
// The remote store calls [Store.Unavailable], [Store.Recovering] and [Store.Recovered] when its availability changes, and [Store.PartUnavailable] and
// [Store.PartRecovered] when that of some of its counters does.
type Store struct {
	remote        Remote
	isUnavailable func(*limiter.Charge) bool
	local         *local.Counters
	clock         func() time.Time
	observe       ObserveCall
	outages       *outages

	reportsLater  atomic.Bool  // a task waits, see reportLater
	recoveryUntil atomic.Int64 // end of the recovery window, in nanoseconds since the epoch
	metrics       *metrics
	resets        resets
}

// New returns a Store that decides charges on remote, and on counters while remote is unavailable. The clock must not step;
// time.Now does not.
func New(remote Remote, counters *local.Counters, clock func() time.Time, log *slog.Logger) *Store {
	metrics := newMetrics()
	isUnavailable := func(c *limiter.Charge) bool { return remote.Unavailable(c.Key) }
	if selective, ok := remote.(Selective); ok {
		isUnavailable = selective.UnavailableFor
	}
	return &Store{
		remote: remote, isUnavailable: isUnavailable, local: counters, clock: clock, observe: func(string, time.Duration, error) {},
		outages: newOutages(clock, log, metrics.probeErrors), metrics: metrics,
	}
}

// ObserveCalls sets the function that receives the calls of the remote store. Call it before the Store is used.
func (s *Store) ObserveCalls(observe ObserveCall) { s.observe = observe }

// Spend implements limiter.Store. A decision's Origin reports where it was made. All errors are a [*limiter.RefusedError], or wrap
// [limiter.ErrOverloaded], or are a [*limiter.PartialError] with this cause: the remote store is available, but this process
// cannot keep up. Local decisions would then admit units on top of those that the remote store admits.
func (s *Store) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.decide(ctx, charges, false)
	if err != nil {
		if !errors.Is(err, limiter.ErrOverloaded) {
			s.outages.refused.Add(1)
		}
		return nil, err
	}
	if slices.ContainsFunc(decisions, func(d limiter.Decision) bool { return d.Origin == limiter.OriginLocal }) {
		s.outages.decided(pass(charges, decisions))
	}
	return decisions, nil
}

// Peek implements limiter.Store; see [Store.Spend].
func (s *Store) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return s.decide(ctx, charges, true)
}

// Refund implements limiter.Store. Units on unavailable counters are refunded locally, and those of the recovery window are refunded on both
// counters that they were spent on.
func (s *Store) Refund(ctx context.Context, refunds []limiter.Refund) error {
	var remote []limiter.Refund
	now := s.clock()
	for _, r := range refunds {
		charge := limiter.Charge{Key: r.Key, Limit: r.Limit, Cost: r.Cost, WholeShare: r.WholeShare}
		isUnavailable := s.isUnavailable(&charge)
		if isUnavailable || s.inRecoveryWindow(now, []limiter.Charge{charge}) {
			s.refundLocally(charge, &r)
		}
		if !isUnavailable {
			remote = append(remote, r)
		}
	}
	if len(remote) == 0 {
		return nil
	}
	return s.remote.Refund(ctx, remote)
}

// refundLocally refunds the units of charge, those of r, on this replica's counter.
func (s *Store) refundLocally(charge limiter.Charge, r *limiter.Refund) {
	if r.Latest {
		s.local.RefundLatest(charge)
		return
	}
	s.local.Refund([]limiter.Charge{charge}, []limiter.Decision{{At: r.At, Allowed: true}})
}
