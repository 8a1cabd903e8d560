package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// A request on two nodes of which the first is slow has little time left for the second. The healthy second node stays available.
func TestSpendAcross_ASlowNodeDoesNotMakeAnotherUnavailable(t *testing.T) {
	t.Parallel()
	const timeout = 600 * time.Millisecond
	cluster := fixture.RedisCluster(t)
	client, err := redisclient.Open(cluster.URL(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.NewStore(client, timeout)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	store.EnableBreaker(ctx, newOutageRecorder())
	first := unitsOf(t, "slow", "a", 10)
	slow, err := cluster.PrimaryOf(t.Context(), first[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	var second []limiter.Charge
	healthy := slow
	for i := 0; healthy == slow; i++ { // later in the order of hash tags
		second = unitsOf(t, "slow", fmt.Sprintf("b%d", i), 10)
		if healthy, err = cluster.PrimaryOf(t.Context(), second[0].Key); err != nil {
			t.Fatal(err)
		}
	}
	awaitSpend(t, store, first)
	awaitSpend(t, store, second)
	// The second node answers in less than a timeout after it receives the call, but too late for this call.
	do(t, healthy, "CLIENT", "PAUSE", "950", "ALL")
	do(t, slow, "CLIENT", "PAUSE", "450", "ALL")
	if decisions, err := store.Spend(t.Context(), slices.Concat(first, second)); err == nil {
		t.Fatalf("%+v, want an error: the time is over", decisions)
	}
	if store.Unavailable(second[0].Key) {
		t.Error("the second node is unavailable, because the first one was slow")
	}
	awaitSpend(t, store, second)
}

// TestSpendAcross tests requests with charges in several slots of a Redis Cluster. All tests use one node, because it takes
// two seconds to start.
func TestSpendAcross(t *testing.T) { //nolint:tparallel // the subtests share the node
	t.Parallel()
	node := fixture.RedisClusterNode(t)
	url := node.URL() + "?addr=" + node.Addr()
	raw := rawClient(t, url)
	failures := make(chan error, 100)
	store := redisstore.NewStore(open(t, url), longTimeout,
		redisstore.WithInvalidations(redisstore.InvalidationChannel("weir:")), redisstore.WithRefundFailures(func(err error) { failures <- err }))

	// The slots are used in the order of their hash tags: a, b, c.
	charges := func(policy string, units ...int64) []limiter.Charge {
		var all []limiter.Charge
		for i, n := range units {
			all = append(all, unitsOf(t, policy, string(rune('a'+i)), n)...)
		}
		return all
	}
	left := func(t *testing.T, charges []limiter.Charge) []int64 {
		t.Helper()
		var units []int64
		for _, c := range charges {
			units = append(units, peekRemaining(t, store, []limiter.Charge{c}))
		}
		return units
	}
	wantLeft := func(t *testing.T, charges []limiter.Charge, want ...int64) {
		t.Helper()
		if got := left(t, charges); !slices.Equal(got, want) {
			t.Errorf("%v units remain, want %v", got, want)
		}
	}

	t.Run("CountsEveryCharge", func(t *testing.T) {
		all := charges("counts", 10, 20, 30)
		all[1].Cost = 2
		decisions, err := store.Spend(t.Context(), []limiter.Charge{all[2], all[0], all[1]})
		if err != nil || decisions[0].Remaining != 29 || decisions[1].Remaining != 9 || decisions[2].Remaining != 18 {
			t.Errorf("got %+v, %v; want 29, 9 and 18 remaining", decisions, err)
		}
		wantLeft(t, all, 9, 18, 29)
	})
	t.Run("RefundsWhatAnotherSlotDenied", func(t *testing.T) {
		for denied, want := range [][]int64{{0, 10, 10}, {10, 0, 10}, {10, 10, 0}} {
			all := charges("denies-"+string(rune('a'+denied)), 10, 10, 10)
			full := slices.Clone(all[denied : denied+1])
			full[0].Cost = 10
			remaining(t, store, full)
			decisions, err := store.Spend(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range decisions {
				if d.Allowed != (i != denied) || d.Remaining != want[i] {
					t.Errorf("slot %d is full: decision %d is %+v, want %d remaining", denied, i, d, want[i])
				}
			}
			wantLeft(t, all, want...)
		}
	})
	t.Run("RefundsTheSlotsBeforeOneThatFails", func(t *testing.T) {
		all := charges("fails", 10, 10, 10, 10)
		limit, err := limiter.NewLimit(limiter.FixedWindow, 10, limiter.MaxWindow)
		if err != nil {
			t.Fatal(err)
		}
		full := limiter.Charge{Key: "weir:{a}:full", Limit: limit, Cost: 10}
		remaining(t, store, []limiter.Charge{full})
		shadow := full
		shadow.Shadow, shadow.Cost = true, 1                                                // denied, so there is nothing to refund
		do(t, node, "ACL", "SETUSER", "default", "resetkeys", "~*{a}*", "~*{b}*", "~*{d}*") // not slot c
		if decisions, err := store.Spend(t.Context(), append([]limiter.Charge{shadow}, all...)); redisclient.Kind(err) != redisclient.KindDenied {
			t.Errorf("got %+v, %v; want the error of slot c", decisions, err)
		}
		do(t, node, "ACL", "SETUSER", "default", "allkeys")
		others := []limiter.Charge{all[0], all[1], all[3]}
		fixture.Await(t, "the slots before it have their units again", func() bool {
			return slices.Equal(left(t, others), []int64{10, 10, 10})
		})
		wantLeft(t, []limiter.Charge{full}, 0)
		for _, c := range others {
			if n := raw.Exists(t.Context(), c.Key).Val(); n != 0 {
				t.Errorf("%s exists", c.Key)
			}
		}
		if len(failures) > 0 {
			t.Errorf("a refund failed: %v", <-failures)
		}
	})
	t.Run("ReportsARefundThatFailed", func(t *testing.T) {
		all := charges("reports", 10, 10, 1)
		remaining(t, store, all[2:])
		do(t, node, "ACL", "SETUSER", "default", "-publish") // refund.lua publishes the keys
		defer do(t, node, "ACL", "SETUSER", "default", "+publish")
		if _, err := store.Spend(t.Context(), all); err != nil {
			t.Errorf("%v, want no error: the request is denied", err)
		}
		for range 2 {
			if err := <-failures; redisclient.Kind(err) != redisclient.KindDenied {
				t.Errorf("error %v, want a missing permission", err)
			}
		}
	})
}
