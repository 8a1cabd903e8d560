package denials

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// Cache has the denials of one replica. Its layers answer requests with them.
type Cache struct {
	capacity int
	clock    func() time.Time
	current  atomic.Pointer[Denials]
}

// NewCache returns an empty cache for up to capacity denials. The clock must not step; time.Now does not.
func NewCache(capacity int, clock func() time.Time) *Cache {
	c := &Cache{capacity: capacity, clock: clock}
	c.ForgetAll()
	return c
}

// Forget drops the denials of the counters at keys: units were refunded on them, or they were reset.
func (c *Cache) Forget(keys ...string) {
	denials, now := c.current.Load(), c.clock()
	for _, key := range keys {
		denials.Forget(key, now)
	}
}

// ForgetAll drops all denials, and those that requests in flight are about to cache. Call it when a Forget may have been missed.
func (c *Cache) ForgetAll() { c.current.Store(New(c.capacity)) }

// Len is the number of cached denials, including expired ones that are not evicted yet.
func (c *Cache) Len() int { return c.current.Load().Len() }

// Answers returns a layer that answers requests whose denial is known, and passes the others on.
func (c *Cache) Answers(next limiter.Store) limiter.Store { return &answers{next, c} }

// Learns returns a layer that caches the denials of next.
func (c *Cache) Learns(next limiter.Store) limiter.Store { return &learns{next, c} }

// answers is a layer that decides with the denials of a cache.
type answers struct {
	limiter.Store

	cache *Cache
}

// learns is a layer that fills a cache.
type learns struct {
	limiter.Store

	cache *Cache
}

// Spend implements limiter.Store. A known denial of one enforced charge suffices to deny a request, which is then charged nowhere: the decisions
// on the other charges are Undecided.
func (s *answers) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if cached := s.cache.Known(charges); cached != nil {
		return cached, nil
	}
	return s.Store.Spend(ctx, charges)
}

// Spend implements limiter.Store.
func (s *learns) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	denials, began := s.cache.current.Load(), s.cache.clock()
	decisions, err := s.Store.Spend(ctx, charges)
	for i := range charges { // also those of a call that failed: it may have been made
		if charges[i].CountsAlways() {
			s.cache.Forget(charges[i].Key) // the wait is longer now
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range charges {
		c, d := &charges[i], &decisions[i]
		if !c.Shadow && !c.Debt && !d.Allowed && d.Origin == limiter.OriginStore {
			denials.Remember(c, *d, began, s.cache.clock())
		}
	}
	return decisions, nil
}

// Known returns the decisions that a Spend would return without asking the next Store, nil if it would ask.
func (c *Cache) Known(charges []limiter.Charge) []limiter.Decision {
	return c.current.Load().find(charges, c.clock())
}

// Refund implements limiter.Store.
func (s *learns) Refund(ctx context.Context, refunds []limiter.Refund) error {
	err := s.Store.Refund(ctx, refunds)
	for i := range refunds { // also those that failed: they may have been made
		s.cache.Forget(refunds[i].Key)
	}
	return err
}

// Reset implements limiter.Store.
func (s *learns) Reset(ctx context.Context, keys []string, id string) error {
	err := s.Store.Reset(ctx, keys, id)
	s.cache.Forget(keys...)
	return err
}

// find returns the decisions about a request that is known to be denied, else nil. It returns nil if another enforced charge can be denied for
// longer: only the store knows whether it is, and the client must not come back too early. A request with a debt is charged even if it is denied,
// so only the store can deny it.
func (d *Denials) find(charges []limiter.Charge, now time.Time) []limiter.Decision {
	var decisions []limiter.Decision
	var longest time.Duration    // of the known waits
	var storeNow limiter.Instant // now, by the clock of the store
	for i := range charges {
		c := &charges[i]
		if c.CountsAlways() {
			return nil
		}
		if c.Shadow {
			continue
		}
		denial, ok := d.Find(c, now)
		if !ok {
			continue
		}
		if decisions == nil {
			decisions = undecided(len(charges))
		}
		decisions[i], longest, storeNow = denial, max(longest, denial.RetryAfter), denial.At
	}
	if decisions == nil {
		return nil
	}
	for i := range charges {
		if !charges[i].Shadow && decisions[i].Origin == limiter.Undecided && longestWait(&charges[i], storeNow) > longest {
			return nil
		}
	}
	return decisions
}

// undecided returns n decisions that are yet to be made.
func undecided(n int) []limiter.Decision {
	decisions := make([]limiter.Decision, n)
	for i := range decisions {
		decisions[i].Origin = limiter.Undecided
	}
	return decisions
}

// longestWait is the longest RetryAfter of a decision on the charge at an instant.
func longestWait(c *limiter.Charge, now limiter.Instant) time.Duration {
	limit := c.Limit
	switch {
	case c.Units() > limit.Capacity():
		return limiter.Never
	case limit.Traits().EndsWithWindow():
		return limit.Window() - now.Sub(0)%limit.Window()
	default:
		return limit.LongestWait()
	}
}
