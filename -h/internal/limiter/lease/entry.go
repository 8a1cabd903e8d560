package lease

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// entry is a counter that this replica charges often.
type entry struct {
	key   string
	lease atomic.Pointer[held] // nil: not leased yet

	mu       sync.Mutex // for the fields below; admitting from memory does not need it
	removed  bool
	spending bool          // a call of the store is about to return a lease
	retryAt  instant       // no lease is tried before
	since    instant       // when used was 0
	used     int64         // units charged since then, without those of the lease
	touched  instant       // when the store was last called
	left     int64         // units that the store had left then
	maxAge   time.Duration // of the last terms
}

// entryOf returns the entry of a counter. It is nil unless the counter is busy.
func (l *Leases) entryOf(c *limiter.Charge, now instant) *entry {
	if found, ok := l.entries.Load(c.Key); ok {
		return found.(*entry) //nolint:forcetypeassert // all its values have this type
	}
	if !l.demand.add(c.Key, now) || l.count.Load() >= maxEntries {
		return nil
	}
	e := &entry{
		key: c.Key, since: now - demandTick, used: busy * c.Units(), touched: now, maxAge: c.Lease.MaxAge,
	}
	if found, loaded := l.entries.LoadOrStore(c.Key, e); loaded {
		return found.(*entry) //nolint:forcetypeassert // all its values have this type
	}
	l.count.Add(1)
	l.schedule.add(now.add(c.Lease.MaxAge), e)
	return e
}

// plan returns the number of units to lease with the charge, 0 for no lease. After more than 0, the caller calls settle.
func (e *entry) plan(l *Leases, c *limiter.Charge, now instant) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touched, e.maxAge = now, c.Lease.MaxAge
	e.used += c.Units()
	if e.spending || e.removed || now < e.retryAt || c.Units() == 0 {
		return 0
	}
	n := need{
		terms: *c.Lease, limit: c.Limit, replicas: l.replicas.Load(),
		used: e.used, period: time.Duration(now - e.since), remaining: e.left, cost: c.Units(),
	}
	if h := e.lease.Load(); h != nil {
		left := h.unused()
		n.used += h.size - left
		n.previous = h.size
		if now < h.expiresAt {
			if h.limit != c.Limit || left*growth >= h.size {
				return 0 // the lease is for other requests, or is still used
			}
			n.left = left
		}
	}
	size := n.size()
	e.spending = size > 0
	if size == 0 && n.period > 2*c.Lease.MaxAge { // forget old demand
		e.used, e.since = e.used/2, now-(now-e.since)/2
	}
	return size
}

// observe records what the store had left after a charge.
func (e *entry) observe(d limiter.Decision) {
	if d.Origin == limiter.OriginStore {
		e.mu.Lock()
		e.left = d.Remaining
		e.mu.Unlock()
	}
}

// settle ends what plan began: with a lease, or with nil and the time before which there is no other attempt.
func (l *Leases) settle(e *entry, h *held, retryAt instant) {
	e.mu.Lock()
	e.spending, e.retryAt = false, retryAt
	var previous *held
	orphan := false
	if h != nil {
		if orphan = e.removed; !orphan {
			previous = e.lease.Swap(h)
			e.since, e.used, e.left = h.began, 0, h.remaining
		}
	}
	e.mu.Unlock()
	if previous != nil {
		l.end(previous)
	}
	if orphan {
		l.end(h)
	}
}
