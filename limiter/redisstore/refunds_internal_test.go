package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// Leases return units of many counters, some of them twice.
func TestRefund_SharesRoundTrips(t *testing.T) {
	server := fixture.Redis(t)
	store := NewStore(openURL(t, server.URL()), patience)
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, 10, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var charges []limiter.Charge
	for i := range 15 {
		charges = append(charges, limiter.Charge{Key: fmt.Sprintf("weir:{%d}", i), Limit: limit, Cost: 5})
	}
	spent, err := store.Spend(t.Context(), charges)
	if err != nil {
		t.Fatal(err)
	}
	var refunds []limiter.Refund
	for i, c := range charges {
		refunds = append(refunds, limiter.Refund{Key: c.Key, Limit: limit, Cost: 2, At: spent[i].At})
	}
	refunds = append(refunds, refunds[0]) // the keys of one script are distinct
	before := evalCalls(t, server)
	if err := store.Refund(t.Context(), refunds); err != nil {
		t.Fatal(err)
	}
	if calls := evalCalls(t, server) - before; calls != 2 {
		t.Errorf("%d refunds took %d scripts, want 2", len(refunds), calls)
	}
	left, err := store.Peek(t.Context(), charges)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range left {
		want := int64(7)
		if i == 0 {
			want = 9
		}
		if d.Remaining != want {
			t.Errorf("counter %d: %d units remain, want %d", i, d.Remaining, want)
		}
	}
}

// A script blocks Redis, and the refund of a log can move entries.
func TestRefund_BoundsTheRefundsInOneScript(t *testing.T) {
	server := fixture.Redis(t)
	store := NewStore(openURL(t, server.URL()), patience)
	for algorithm, want := range map[limiter.Algorithm]int{limiter.SlidingWindowLog: 19, limiter.FixedWindow: 2} {
		limit, err := limiter.NewLimit(algorithm, 300_000, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var refunds []limiter.Refund
		for i := range 300 {
			refunds = append(refunds, limiter.Refund{Key: fmt.Sprint(algorithm, i), Limit: limit, Cost: 1, At: limiter.At(time.Now())})
		}
		before := evalCalls(t, server)
		if err := store.Refund(t.Context(), refunds); err != nil {
			t.Fatal(err)
		}
		if calls := evalCalls(t, server) - before; calls != want {
			t.Errorf("%s: %d refunds took %d scripts, want %d", algorithm, len(refunds), calls, want)
		}
	}
}

// On a Redis Cluster, the counters of different identifiers are in different slots.
func TestRefund_SharesRoundTripsAcrossSlots(t *testing.T) {
	t.Parallel() // it waits for the cluster
	node := fixture.RedisClusterNode(t)
	client := openURL(t, node.URL()+"?addr="+node.Addr())
	store := NewStore(client, patience)
	limit, err := limiter.NewLimit(limiter.FixedWindow, 10, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	var refunds []limiter.Refund
	for i := range 100 {
		key := fmt.Sprintf("weir:{%d}", i)
		spent, err := store.Spend(t.Context(), []limiter.Charge{{Key: key, Limit: limit, Cost: 5}})
		if err != nil {
			t.Fatal(err)
		}
		refunds = append(refunds, limiter.Refund{Key: key, Limit: limit, Cost: 1, At: spent[0].At})
	}
	if err := store.Refund(t.Context(), refunds[:1]); err != nil { // loads the script
		t.Fatal(err)
	}
	before := reads(t, client)
	if err := store.Refund(t.Context(), append(refunds, refunds[0])); err != nil {
		t.Fatal(err)
	}
	if n := reads(t, client) - before; n > 30 {
		t.Errorf("the node read %d times for %d refunds, want a few", n, len(refunds)+1)
	}
	for i, r := range refunds {
		want := int64(6)
		if i == 0 {
			want = 8 // three refunds
		}
		left, err := store.Peek(t.Context(), []limiter.Charge{{Key: r.Key, Limit: limit}})
		if err != nil || left[0].Remaining != want {
			t.Errorf("%s: %+v, %v; want %d units to remain", r.Key, left, err, want)
		}
	}
	if err := client.Redis().Do(t.Context(), "ACL", "SETUSER", "default", "resetkeys", "~*{1}*", "~*{3}*").Err(); err != nil {
		t.Fatal(err)
	}
	err = store.Refund(t.Context(), refunds[1:4])
	failed, is := errors.AsType[*limiter.RefundError](err)
	if redisclient.Kind(err) != redisclient.KindDenied || !is || !slices.Equal(failed.Keys, []string{"weir:{2}"}) {
		t.Errorf("got %v, want the error of slot 2 alone", err)
	}
	left, err := store.Peek(t.Context(), []limiter.Charge{{Key: refunds[3].Key, Limit: limit}})
	if err != nil || left[0].Remaining != 7 {
		t.Errorf("after the slot that failed: %+v, %v; want 7 units to remain", left, err)
	}
}

// reads returns how many times the server has read from connections.
func reads(t *testing.T, client *redisclient.Client) (n int) {
	t.Helper()
	stats, err := client.Redis().InfoMap(t.Context(), "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Sscanf(stats["Stats"]["total_reads_processed"], "%d", &n)
	return n
}

// evalCalls returns the number of scripts that the server has run.
func evalCalls(t *testing.T, server *fixture.RedisProcess) int {
	t.Helper()
	stats, err := openURL(t, server.URL()).Redis().InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, command := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
		var n, failed, rejected int
		_, _ = fmt.Sscanf(stats["Commandstats"][command], "calls=%d", &n)
		_, _ = fmt.Sscanf(after(stats["Commandstats"][command], "failed_calls="), "%d", &failed)
		_, _ = fmt.Sscanf(after(stats["Commandstats"][command], "rejected_calls="), "%d", &rejected)
		calls += n - failed - rejected
	}
	return calls
}

func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}
