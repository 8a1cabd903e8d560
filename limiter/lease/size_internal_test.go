package lease

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func logLimit(t testing.TB, units int64) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, units, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// docs/concepts/leases.md lists the bounds.
func TestNeed_SizeFollowsTheDemandWithinItsBounds(t *testing.T) {
	bucket, err := limiter.NewLimit(limiter.TokenBucket, 1000, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if bucket, err = bucket.WithBurst(300); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*need)
		want   int64
	}{
		"the demand of 40 units a second, and an eighth": {func(*need) {}, 45},
		"half of the demand":                             {func(n *need) { n.period = 2 * time.Second }, 22},
		"a longer age":                                   {func(n *need) { n.terms.MaxAge = 2 * time.Second }, 90},
		"a demand of no measurable time":                 {func(n *need) { n.period, n.used, n.previous = 0, 1, 10_000 }, 1125},
		"a demand above every limit":                     {func(n *need) { n.used, n.previous = 1<<62, 1<<30 }, 10_000},
		"four times the smallest lease without another":  {func(n *need) { n.previous = 0 }, 16},
		"four times a small lease":                       {func(n *need) { n.previous = 3 }, 16},
		"four times the lease before it":                 {func(n *need) { n.previous = 5 }, 20},
		"the share":                                      {func(n *need) { n.limit = logLimit(t, 300) }, 30},
		"the share of one of three replicas":             {func(n *need) { n.limit, n.replicas = logLimit(t, 300), 3 }, 10},
		"the share without what the last lease has":      {func(n *need) { n.limit, n.left = logLimit(t, 300), 12 }, 18},
		"the share of the burst":                         {func(n *need) { n.limit = bucket }, 30},
		"half of what is left":                           {func(n *need) { n.remaining = 41 }, 20},
		"half of what is left, of three replicas":        {func(n *need) { n.remaining, n.replicas = 61, 3 }, 10},
		"four units":                                     {func(n *need) { n.remaining = 9 }, 4},
		"fewer than four units":                          {func(n *need) { n.remaining = 8 }, 0},
		"nothing left":                                   {func(n *need) { n.remaining = 0 }, 0},
		"twice the cost":                                 {func(n *need) { n.remaining, n.cost = 25, 5 }, 10},
		"less than twice the cost":                       {func(n *need) { n.remaining, n.cost = 24, 5 }, 0},
	} {
		n := need{
			terms: limiter.LeaseTerms{MaxPercent: 10, MaxAge: time.Second}, limit: logLimit(t, 100_000), replicas: 1,
			used: 40, period: time.Second, previous: 10_000, remaining: 100_000, cost: 1,
		}
		test.change(&n)
		if got := n.size(); got != test.want {
			t.Errorf("%s: %d units, want %d", name, got, test.want)
		}
	}
}
