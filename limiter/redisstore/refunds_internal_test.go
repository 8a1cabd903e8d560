package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
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
	for i := range 20 {
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
