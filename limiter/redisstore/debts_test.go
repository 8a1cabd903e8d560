package redisstore_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// debtIn is a charge of 7 of 10 units, with its key in the slot of a tag.
func debtIn(t *testing.T, tag string) limiter.Charge {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.FixedWindow, 10, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	return limiter.Charge{Key: "weir:{" + tag + "}:debt", Limit: limit, Cost: 7, Debt: true}
}

func TestSpendAcross_CountsDebtsWhateverTheOtherSlotsDecide(t *testing.T) {
	t.Parallel()
	node := fixture.RedisClusterNode(t)
	store := redisstore.NewStore(open(t, node.URL()+"?addr="+node.Addr()), longTimeout)
	spend := func(t *testing.T, charges ...limiter.Charge) []limiter.Decision {
		t.Helper()
		decisions, err := store.Spend(t.Context(), charges)
		if err != nil {
			t.Fatal(err)
		}
		return decisions
	}
	for _, denied := range []string{"a", "c"} { // the slots are used in the order of their tags
		full, debt := unitsOf(t, "debts", denied, 10)[0], debtIn(t, "b-"+denied)
		full.Cost = 10
		spend(t, full)
		for i, want := range []struct {
			allowed bool
			left    int64
		}{{true, 3}, {true, 0}, {false, 0}} {
			if d := spend(t, full, debt); d[1].Allowed != want.allowed || d[1].Remaining != want.left || d[0].Allowed {
				t.Errorf("slot %s is full, spend %d: %+v, want the debt allowed: %v, with %d left", denied, i+1, d, want.allowed, want.left)
			}
		}
		refund := limiter.Refund{Key: debt.Key, Limit: debt.Limit, Cost: 12, At: limiter.At(time.Now())}
		if err := store.Refund(t.Context(), []limiter.Refund{refund}); err != nil {
			t.Fatal(err)
		}
		if n := peekRemaining(t, store, []limiter.Charge{debt}); n != 1 {
			t.Errorf("%d units are left after a refund of 12 of 21 units, want 1 of 10", n)
		}
	}
}

func TestSpendAcross_ADeniedDebtPreventsCharges(t *testing.T) {
	t.Parallel()
	node := fixture.RedisClusterNode(t)
	store := redisstore.NewStore(open(t, node.URL()+"?addr="+node.Addr()), longTimeout)
	debt, shadow, other := debtIn(t, "a"), debtIn(t, "b"), unitsOf(t, "debts", "c", 10)[0]
	shadow.Shadow, shadow.Cost = true, 20
	for i, want := range []struct{ left, otherLeft int64 }{{3, 9}, {0, 8}, {0, 8}} { // the shadow debt is denied from the second on
		d, err := store.Spend(t.Context(), []limiter.Charge{other, shadow, debt})
		if err != nil || d[2].Remaining != want.left || !d[0].Allowed || d[0].Remaining != want.otherLeft || d[1].Allowed != (i == 0) {
			t.Errorf("spend %d: %+v, %v, want %+v left", i+1, d, err, want)
		}
	}
	if n := peekRemaining(t, store, []limiter.Charge{other}); n != 8 {
		t.Errorf("%d units are left, want 8", n)
	}
}

// The debt is counted in Redis, the other charge on this replica.
func TestSpendAcross_CountsADebtOnceIfALaterSlotFails(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	cluster := primaries(t, 2)
	client, err := redisclient.Open(cluster.URL(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store, counters := redisstore.NewStore(client, timeout), local.New(1<<20, time.Now)
	nodes := cluster.Nodes()
	debt, other := debtIn(t, identifierOn(t, cluster, nodes[0], 0)), unitsOf(t, "later", identifierOn(t, cluster, nodes[1], 1), 10)[0]
	awaitSpend(t, store, []limiter.Charge{other})
	do(t, nodes[1], "CLIENT", "PAUSE", "3000", "ALL")
	d, err := failover.New(store, counters, time.Now, slog.New(slog.DiscardHandler)).Spend(t.Context(), []limiter.Charge{other, debt})
	if err != nil || d[0].Origin != limiter.OriginLocal || d[1].Origin != limiter.OriginStore || d[1].Remaining != 3 {
		t.Errorf("%+v, %v, want a local decision, and one of Redis with 3 left", d, err)
	}
	if c, unreported := counters.TakeUnreported(debt.Key); unreported {
		t.Errorf("%d units of the debt are counted locally, want none", c.Cost)
	}
}
