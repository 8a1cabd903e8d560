package denials

import (
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Life is the longest that a denial is remembered, however long its wait. It bounds what two clocks can drift apart
// meanwhile (a skew of 500 ppm, the most that NTP corrects by, makes 5 ms), and for how long a refund goes unnoticed of
// which no notice came.
const Life = 10 * time.Second

// denial is what the store answered of a counter that admits nothing before a known moment.
type denial struct {
	limit    limiter.Limit
	decision limiter.Decision
	answered time.Time // when the answer had come
	until    time.Time // from then on the store is asked
}

// newDenial is the denial to remember of a charge that the store was asked about at began. It is nil if there is none,
// or none any more.
//
// The store decided at an instant between began and answered, so the moment it spoke of lies between began and answered
// plus the wait. The denial holds until the earlier of them, and tells the later.
func newDenial(c limiter.Charge, d limiter.Decision, began, answered time.Time) *denial {
	until := began.Add(min(d.RetryAfter, Life))
	if !frozen(c, d) || !answered.Before(until) {
		return nil
	}
	return &denial{limit: c.Limit, decision: d, answered: answered, until: until}
}

// frozen says whether nothing at all can be admitted on the counter before the decision's retry-after is over. Then
// nothing can change it either, and every figure of the decision falls with time, one to one.
func frozen(c limiter.Charge, d limiter.Decision) bool {
	return !d.Allowed && d.Remaining == 0 && d.RetryAfter != limiter.Never && waitsAsOne(c)
}

// waitsAsOne says whether c waits, on a counter with nothing left, exactly as long as a single unit does.
func waitsAsOne(c limiter.Charge) bool {
	if c.Cost == 1 {
		return true
	}
	// All units of a fixed window come back at once.
	return c.Limit.Algorithm() == limiter.FixedWindow && c.Cost > 1 && c.Cost <= c.Limit.Units()
}

// denies says whether c, asked now, is denied until the same moment.
func (d *denial) denies(c limiter.Charge, now time.Time) bool {
	return now.Before(d.until) && c.Limit == d.limit && waitsAsOne(c)
}

// at is the decision as it is now.
func (d *denial) at(now time.Time) limiter.Decision {
	passed := now.Sub(d.answered)
	decision := d.decision
	decision.RetryAfter = wholeMicroseconds(decision.RetryAfter - passed)
	decision.ResetAfter = wholeMicroseconds(decision.ResetAfter - passed)
	return decision
}

// wholeMicroseconds rounds up, so that nobody is told to come too early.
func wholeMicroseconds(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}
