package lease

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func TestLeases_RefundGivesUnitsBackToTheLeaseInUse(t *testing.T) {
	limit := logLimit(t, 1000)
	lease := func(until instant) func() *held { return func() *held { return leased(limit, 10, 4, until) } }
	for name, test := range map[string]struct {
		lease func() *held
		terms *limiter.LeaseTerms
		limit limiter.Limit
		want  int64
	}{
		"in use":           {lease(now + 1), &limiter.LeaseTerms{}, limit, 5},
		"at its end":       {lease(now), &limiter.LeaseTerms{}, limit, 0},
		"after its end":    {lease(now - 1), &limiter.LeaseTerms{}, limit, 0},
		"another limit":    {lease(now + 1), &limiter.LeaseTerms{}, logLimit(t, 7), 0},
		"an exact charge":  {lease(now + 1), nil, limit, 0},
		"without a lease":  {func() *held { return nil }, &limiter.LeaseTerms{}, limit, 0},
		"without an entry": {nil, &limiter.LeaseTerms{}, limit, 0},
	} {
		l := newLeases()
		if test.lease != nil {
			l.busyCounter("key", 0).lease.Store(test.lease())
		}
		c := limiter.Charge{Key: "key", Limit: test.limit, Cost: 5, Lease: test.terms}
		if got := l.Refund(&c, l.base.Add(time.Duration(now))); got != test.want {
			t.Errorf("%s: gave %d units back, want %d", name, got, test.want)
		}
	}
}
