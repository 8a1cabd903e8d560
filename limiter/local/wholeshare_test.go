package local_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
)

// whole is one with a whole share.
func whole(key string, l limiter.Limit, cost int64) []limiter.Charge {
	charges := one(key, l, cost)
	charges[0].WholeShare = true
	return charges
}

func TestSpend_AWholeShareIsAllThatIsLeft(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		for _, spent := range []int64{0, 1, 40, 100} {
			clock := newClock()
			store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
			c.Share(local.Peers{Replicas: 8, Rank: 7})
			l := limit(t, algorithm, 100, time.Hour)
			if algorithm == limiter.LeakyBucket {
				l, _ = l.WithBurst(99)
			}
			if spent > 0 {
				learn(t, store, c, whole("key", l, spent))
			}
			admitted := int64(0)
			for c.Spend(whole("key", l, 1))[0].Allowed {
				admitted++
			}
			if admitted != 100-spent {
				t.Errorf("%s: %d units are admitted of a limit of 100 with %d spent, want %d", algorithm, admitted, spent, 100-spent)
			}
			if p := c.Portion(whole("key", l, 0)[0]); p.Units != 100 || p.Capacity != 100 {
				t.Errorf("%s: the portion is %+v, want 100", algorithm, p)
			}
			report, _ := c.TakeUnreported("key")
			if report.Cost != admitted {
				t.Errorf("%s: %d units are unreported, want %d", algorithm, report.Cost, admitted)
			}
			if c.ReturnUnreported(report); admitted > 0 {
				if left := c.Peek(whole("key", l, 0))[0].Remaining; left != 0 {
					t.Errorf("%s: %d units are left after a report failed, want 0", algorithm, left)
				}
			}
		}
	}
}

func TestRefund_ReturnsEachUnitOfAWholeShareOnce(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		for what, refund := range map[string]func(*local.Counters, limiter.Limit, []limiter.Decision){
			"of a spend":          func(c *local.Counters, l limiter.Limit, d []limiter.Decision) { c.Refund(one("key", l, 4), d) },
			"of the latest units": func(c *local.Counters, l limiter.Limit, _ []limiter.Decision) { c.RefundLatest(whole("key", l, 4)[0]) },
		} {
			clock := newClock()
			c := local.New(plenty, clock.Now)
			c.Share(local.Peers{Replicas: 3})
			l := limit(t, algorithm, 30, time.Hour)
			if algorithm == limiter.LeakyBucket {
				l, _ = l.WithBurst(29)
			}
			c.Spend(whole("key", l, 10))
			refund(c, l, c.Spend(whole("key", l, 4)))
			if left := c.Peek(whole("key", l, 0))[0].Remaining; left != 20 {
				t.Errorf("%s, %s: %d units are left of 30 after 10, and 4 that were refunded", algorithm, what, left)
			}
		}
		if algorithm == limiter.SlidingWindowLog {
			continue // is not learned, but held
		}
		clock := newClock()
		c := local.New(plenty, clock.Now)
		c.Share(local.Peers{Replicas: 3})
		l := limit(t, algorithm, 30, time.Hour)
		if algorithm == limiter.LeakyBucket {
			l, _ = l.WithBurst(29)
		}
		c.Learn(whole("learned", l, 1), decided(clock, l, 20))
		c.RefundLatest(whole("learned", l, 4)[0])
		if left := c.Peek(whole("learned", l, 0))[0].Remaining; left != 14 {
			t.Errorf("%s: %d units are left of 30 after 20 in the store, and 4 that were refunded", algorithm, left)
		}
	}
}

// An edit of the policy applies during an outage, to counters with unreported units, too.
func TestSpend_AnEditOfTheShareKeepsTheUnitsThatWereSpentHere(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		clock := newClock()
		store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
		c.Share(local.Peers{Replicas: 4})
		l := limit(t, algorithm, 100, time.Hour)
		if algorithm == limiter.LeakyBucket {
			l, _ = l.WithBurst(99)
		}
		learn(t, store, c, one("key", l, 20))
		if admitted := drain(c, "key", l); admitted != 20 {
			t.Fatalf("%s: %d units are admitted by an equal share, want 20", algorithm, admitted)
		}
		if left := c.Peek(whole("key", l, 0))[0].Remaining; left != 60 {
			t.Errorf("%s: %d units are left on a whole share after 20 in the store and 20 here, want 60", algorithm, left)
		}
		c.Spend(whole("key", l, 10))
		if left := c.Peek(one("key", l, 0))[0].Remaining; left != 0 {
			t.Errorf("%s: %d units are left on an equal share of 20 after 30, want 0", algorithm, left)
		}
		if report, _ := c.TakeUnreported("key"); report.Cost != 21 { // at most the share, see the debts in docs/concepts/local-mode.md
			t.Errorf("%s: %d units are unreported, want the share of 80, rounded up", algorithm, report.Cost)
		}
	}
}
