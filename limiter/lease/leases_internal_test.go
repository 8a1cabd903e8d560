package lease

import (
	"testing"

	"github.com/weir-dev/weir/limiter"
)

func TestLeases_RefundGivesUnitsBackToTheLeaseInUse(t *testing.T) {
	limit := logLimit(t, 1000)
	lease := func(until instant) func() *held { return func() *held { return leased(limit, 10, 4, until) } }
	for name, test := range map[string]struct {
		lease func() *held
		limit limiter.Limit
		want  int64
	}{
		"in use":           {lease(now + 1), limit, 5},
		"at its end":       {lease(now), limit, 0},
		"after its end":    {lease(now - 1), limit, 0},
		"another limit":    {lease(now + 1), logLimit(t, 7), 0},
		"without a lease":  {func() *held { return nil }, limit, 0},
		"without an entry": {nil, limit, 0},
	} {
		l := newLeases()
		if test.lease != nil {
			l.busyCounter("key", 0).lease.Store(test.lease())
		}
		r := limiter.Refund{Key: "key", Limit: test.limit, Cost: 5, Latest: true}
		if got := l.refund(&r, now); got != test.want {
			t.Errorf("%s: gave %d units back, want %d", name, got, test.want)
		}
	}
}
