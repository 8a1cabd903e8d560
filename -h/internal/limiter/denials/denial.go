package denials

import (
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// Life is the longest time that a denial is cached, even if its wait is longer. It bounds how far two clocks can drift apart in
// that time (by 5 ms at a skew of 500 ppm, the most that NTP corrects), and for how long a refund has no effect if its notice
// was lost.
const Life = 10 * time.Second

// denial is the store's decision on a counter that admits nothing before a known instant.
type denial struct {
	rule      *limiter.CountedRule
	limit     limiter.Limit
	decision  limiter.Decision
	answered  time.Time // when the store's answer had arrived
	expiresAt time.Time // from this instant on, the store is called
}

// newDenial returns the denial to cache for a charge that the store was called with at began. It returns nil if the decision
// cannot be cached, or has expired already.
//
// The store decided at an instant between began and answered, so the wait ends between began and answered plus RetryAfter. The
// denial holds until the earlier of them, and returns waits until the later.
func newDenial(c *limiter.Charge, d limiter.Decision, began, answered time.Time) *denial {
	expiresAt := began.Add(min(d.RetryAfter, Life))
	if !frozen(c, d) || !answered.Before(expiresAt) {
		return nil
	}
	return &denial{rule: c.Rule, limit: c.Limit, decision: d, answered: answered, expiresAt: expiresAt}
}

// frozen reports whether nothing can be admitted on the counter before the decision's RetryAfter has passed: then nothing but a refund, a
// reset, or a debt can change the counter either, and the durations of the decision decrease exactly with time. Under a limit with a maximum delay,
// requests that can wait longer are admitted meanwhile, and make the wait of c longer, unless there is no room for them.
func frozen(c *limiter.Charge, d limiter.Decision) bool {
	_, bounded := c.Limit.MaxDelay()
	return !d.Allowed && d.Remaining == 0 && (!bounded || c.Limit.Capacity() <= 1) && d.RetryAfter != limiter.Never && waitsLikeOneUnit(c)
}

// waitsLikeOneUnit reports whether c waits, on a counter with nothing left, exactly as long as a single unit does.
func waitsLikeOneUnit(c *limiter.Charge) bool {
	units := c.Units()
	if units == 1 {
		return true
	}
	// All units of the window are available again at the same time.
	return c.Limit.Traits().EndsWithWindow() && units > 1 && units <= c.Limit.Units()
}

// denies reports whether c is denied now, until the same instant.
func (d *denial) denies(c *limiter.Charge, now time.Time) bool {
	return now.Before(d.expiresAt) && c.Rule == d.rule && c.Limit == d.limit && waitsLikeOneUnit(c)
}

// decide returns the decision as of now.
func (d *denial) decide(now time.Time) limiter.Decision {
	passed := now.Sub(d.answered)
	decision := d.decision
	decision.At = decision.At.Add(passed)
	decision.Origin = limiter.OriginDenial
	decision.RetryAfter = wholeMicroseconds(decision.RetryAfter - passed)
	decision.ResetAfter = wholeMicroseconds(decision.ResetAfter - passed)
	return decision
}

// wholeMicroseconds rounds up, so that no client retries too early.
func wholeMicroseconds(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}
