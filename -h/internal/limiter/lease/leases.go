package lease

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
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

// New returns Leases whose units are returned to remote. The Store that they spend the units in, see [Leases.Borrow], decides on remote as long
// as that is available. The clock must not step; time.Now does not.
func New(remote Remote, clock func() time.Time) *Leases {
	l := &Leases{remote: remote, clock: clock, base: clock()}
	l.demand.seed = maphash.MakeSeed()
	l.replicas.Store(1)
	l.schedule.wake = make(chan struct{}, 1)
	l.metrics = newMetrics(l)
	return l
}

// Share sets the number of replicas that share each limit, at least 1.
func (l *Leases) Share(replicas int64) { l.replicas.Store(max(1, replicas)) }

func (l *Leases) toInstant(now time.Time) instant { return instant(now.Sub(l.base)) }

// taken is units of a lease that a request has taken.
type taken struct {
	lease *held
	units int64
	now   instant
	left  int64
}

// take takes the units of c from the lease of its counter. It reports false if c is not leased, or the lease does not have them.
func (l *Leases) take(c *limiter.Charge, now instant) (t taken, ok bool) {
	if c.Lease == nil {
		return taken{}, false
	}
	found, ok := l.entries.Load(c.Key)
	if !ok {
		return taken{}, false
	}
	lease := found.(*entry).lease.Load() //nolint:forcetypeassert // all its values have this type
	if lease == nil || now >= lease.expiresAt || lease.limit != c.Limit {
		return taken{}, false
	}
	units := c.Units()
	left, ok := lease.take(units)
	return taken{lease, units, now, left}, ok
}

// giveBack gives the units back, because another charge of the request was not admitted.
func (l *Leases) giveBack(t *taken) {
	if t.units > 0 && !t.lease.giveBack(t.units) {
		l.rest(t.lease, t.units)
	}
}

// decision is the decision about the charge. Remaining and ResetAfter describe the counter when the units were leased, and the units of
// the lease that are left.
func (t *taken) decision() limiter.Decision { return t.lease.decision(t.now, t.left) }

// refund gives units of requests that were admitted before back to the lease of the counter. It returns the number of units that the lease
// could hold.
func (l *Leases) refund(r *limiter.Refund, now instant) int64 {
	found, ok := l.entries.Load(r.Key)
	if !ok {
		return 0
	}
	lease := found.(*entry).lease.Load() //nolint:forcetypeassert // all its values have this type
	if lease == nil || now >= lease.expiresAt || lease.limit != r.Limit {
		return 0
	}
	return lease.refund(r.Units())
}
