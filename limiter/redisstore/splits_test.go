package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// patientStore returns a Store with a breaker whose calls have time on a loaded machine.
func patientStore(t *testing.T, url string, observer redisstore.OutageObserver) *redisstore.Store {
	t.Helper()
	client, err := redisclient.Open(url, longTimeout)
	if err != nil {
		t.Fatal(err)
	}
	store := redisstore.NewStore(client, longTimeout)
	ctx, cancel := context.WithCancel(context.Background())
	store.EnableBreaker(ctx, observer)
	t.Cleanup(func() {
		cancel()
		_ = client.Close()
	})
	return store
}

// The first call whose keys are in several slots shows that the server separates them. It is decided in Redis nevertheless, and so are all later ones:
// calls of several slots, batches, and refunds.
func TestSpend_SplitsCallsBySlotAfterCROSSSLOT(t *testing.T) {
	t.Parallel()
	node, outages := fixture.RedisClusterNode(t), newOutageRecorder()
	store := patientStore(t, node.URL(), outages)
	chargesOf := func(request int) (charges []limiter.Charge) {
		for policy := range 3 {
			charges = append(charges, unitsOf(t, fmt.Sprint("shop/", policy), fmt.Sprint(request, "-", policy), 5)...)
		}
		return charges
	}
	awaitSpend(t, store, unitsOf(t, "shop/a", "one slot", 5))
	first := chargesOf(0)
	if _, err := store.Spend(t.Context(), first); err != nil {
		t.Fatalf("the first call: %v", err)
	}
	if address := receive(t, outages.split); address != node.Addr() {
		t.Errorf("splits the calls to %q, want %s", address, node.Addr())
	}
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for range 5 {
				if d, err := store.Spend(t.Context(), chargesOf(1+i%16)); err != nil {
					t.Errorf("call %d: %+v, %v", i, d, err)
				}
			}
		})
	}
	group.Wait()
	if d, err := store.Peek(t.Context(), chargesOf(1)); err != nil || d[0].Allowed || d[2].Remaining != 0 {
		t.Errorf("%+v, %v, want no unit left", d, err)
	}
	if n := outages.count(); n != 0 || len(outages.split) > 0 {
		t.Errorf("%d outages, want 0, and one notice about the slots: %v", n, outages.notifications)
	}
}

// A refund can be the first call on several slots.
func TestRefund_SplitsBySlotAfterCROSSSLOT(t *testing.T) {
	t.Parallel()
	node := fixture.RedisClusterNode(t)
	client, err := redisclient.Open(node.URL(), callTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.NewStore(client, callTimeout)
	var refunds []limiter.Refund
	for i := range 4 {
		charges := unitsOf(t, "shop/a", strconv.Itoa(i), 5)
		d, err := store.Spend(t.Context(), charges)
		if err != nil {
			t.Fatal(err)
		}
		refunds = append(refunds, limiter.Refund{Key: charges[0].Key, Limit: charges[0].Limit, Cost: 1, At: d[0].At})
	}
	if err := store.Refund(t.Context(), refunds); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if left := peekRemaining(t, store, unitsOf(t, "shop/a", strconv.Itoa(i), 5)); left != 5 {
			t.Errorf("%d units remain of counter %d, want 5", left, i)
		}
	}
}
