package local_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
)

func TestCounters_PortionsOfAllReplicasAreTheLimit(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		l := limit(t, algorithm, 7, time.Hour)
		if algorithm == limiter.TokenBucket || algorithm == limiter.LeakyBucket {
			var err error
			if l, err = l.WithBurst(3); err != nil {
				t.Fatal(err)
			}
		}
		for replicas := int64(1); replicas <= 9; replicas++ {
			var sum local.Portion
			for rank := range replicas {
				c := local.New(plenty, newClock().Now)
				c.Share(local.Peers{Replicas: replicas, Rank: rank})
				p := c.Portion(limiter.Charge{Key: "k", Limit: l})
				if remaining := c.Peek(one("k", l, 1))[0].Remaining; remaining != p.Capacity {
					t.Errorf("%s, replica %d of %d: %d units remain of an unused share of %d", algorithm, rank, replicas, remaining, p.Capacity)
				}
				sum.Units, sum.Capacity = sum.Units+p.Units, sum.Capacity+p.Capacity
			}
			if sum.Units != 7 || sum.Capacity != l.Capacity() {
				t.Errorf("%s, %d replicas: the portions are %+v together, want 7 units and the capacity %d", algorithm, replicas, sum, l.Capacity())
			}
		}
	}
}

// Units that are not reported to the store remain weighted by the replicas of then.
func TestCounters_PortionIsThatOfTheReplicasThatTheCounterBeganWith(t *testing.T) {
	l := limit(t, limiter.FixedWindow, 6, time.Hour)
	c := local.New(plenty, newClock().Now)
	c.Share(local.Peers{Replicas: 2})
	c.Spend(one("spent", l, 1))
	c.Share(local.Peers{Replicas: 3})
	for key, want := range map[string]int64{"spent": 3, "new": 2} {
		p := c.Portion(limiter.Charge{Key: key, Limit: l})
		remaining := c.Peek(one(key, l, 1))[0].Remaining
		if used := map[string]int64{"spent": 1}[key]; p.Capacity != want || p.Capacity-remaining != used {
			t.Errorf("%s: portion %+v with %d remaining, want %d with %d used", key, p, remaining, want, used)
		}
	}
}
