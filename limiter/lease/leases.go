package lease

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// maxEntries bounds the counters that are considered for leases at the same time. An entry takes about half a kilobyte.
const maxEntries = 50_000

// Remote is the store that holds the counters.
type Remote interface {
	// Unavailable reports whether the counter at key is unavailable now. It makes no call.
	Unavailable(key string) bool
	// Refund refunds units of leases, see [limiter.Store].
	Refund(ctx context.Context, refunds []limiter.Refund) error
}

// Leases are the leases of one replica. They are safe for concurrent use. [Leases.Run] must run as long as they are used.
type Leases struct {
	store  limiter.Store
	remote Remote
	clock  func() time.Time
	base   time.Time // of instants

	replicas atomic.Int64
	demand   demand
	entries  sync.Map // key → *entry
	count    atomic.Int64
	schedule schedule
	metrics  *metrics
}

// New returns Leases whose units are spent by store, and returned to remote: store decides on remote as long as that is available. The clock
// must not step; time.Now does not.
func New(store limiter.Store, remote Remote, clock func() time.Time) *Leases {
	l := &Leases{store: store, remote: remote, clock: clock, base: clock()}
	l.demand.seed = maphash.MakeSeed()
	l.replicas.Store(1)
	l.schedule.wake = make(chan struct{}, 1)
	l.metrics = newMetrics(l)
	return l
}

// Share sets the number of replicas that share each limit, at least 1.
func (l *Leases) Share(replicas int64) { l.replicas.Store(max(1, replicas)) }

func (l *Leases) at(now time.Time) instant { return instant(now.Sub(l.base)) }

// Taken is units of a lease that a request has taken.
type Taken struct {
	lease *held
	units int64
	now   instant
	left  int64
}

// Take takes the units of c from the lease of its counter. It reports false if c is not leased, or the lease does not have them.
func (l *Leases) Take(c *limiter.Charge, now time.Time) (taken Taken, ok bool) {
	if c.Lease == nil {
		return Taken{}, false
	}
	found, ok := l.entries.Load(c.Key)
	if !ok {
		return Taken{}, false
	}
	lease, at := found.(*entry).lease.Load(), l.at(now) //nolint:forcetypeassert // all its values have this type
	if lease == nil || at >= lease.until || lease.limit != c.Limit {
		return Taken{}, false
	}
	units := c.Units()
	left, ok := lease.take(units)
	return Taken{lease, units, at, left}, ok
}

// GiveBack gives the units back, because another charge of the request was not admitted.
func (l *Leases) GiveBack(t *Taken) {
	if t.units > 0 && !t.lease.giveBack(t.units) {
		l.rest(t.lease, t.units)
	}
}

// Decision is the decision about the charge. Remaining and ResetAfter describe the counter when the units were leased, and the units of
// the lease that are left.
func (t *Taken) Decision() limiter.Decision { return t.lease.decision(t.now, t.left) }

// Refund gives units of c, which was admitted before, back to the lease of its counter. It returns the number of units that the lease
// could hold.
func (l *Leases) Refund(c *limiter.Charge, now time.Time) int64 {
	found, ok := l.entries.Load(c.Key)
	if !ok || c.Lease == nil {
		return 0
	}
	lease := found.(*entry).lease.Load() //nolint:forcetypeassert // all its values have this type
	if lease == nil || l.at(now) >= lease.until || lease.limit != c.Limit {
		return 0
	}
	return lease.refund(c.Units())
}
