package main

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/fixture"
)

func TestRedisCounters_CountCorruptCounters(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // keeps the memory limit of the test
	client, err := openRedis(fixture.Redis(t).URL(), redisTLSFlags{}, limiterTimeout)
	if err != nil {
		t.Fatal(err)
	}
	log := &transcript{}
	counts, err := redisCounters(client, countersOf("weir:"), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counts.close() })
	limit, err := limiter.NewLimit(limiter.TokenBucket, 10, limiter.MinWindow)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Redis().Set(t.Context(), "{corrupt}", "not a counter", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		decisions, err := counts.store.Spend(t.Context(), []limiter.Charge{{Key: "{corrupt}", Limit: limit, Cost: 1}})
		if err != nil || !decisions[0].Allowed {
			t.Fatalf("%+v, %v", decisions, err)
		}
	}
	if got := testutil.ToFloat64(counts.metrics[0]); got != 1 {
		t.Errorf("%v corrupt counters, want 1", got)
	}
	find(t, log, `level=WARN msg="counters in Redis have values that Weir did not write.*key=({corrupt})`)
}

func TestMemoryCounters_KeepWithinMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // keeps the memory limit of the test
	f := countersOf("weir:")
	f.memory = "128Mi"
	counts, err := memoryCounters(f)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := limiter.NewLimit(limiter.FixedWindow, 10, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200_000 {
		if _, err := counts.store.Spend(t.Context(), []limiter.Charge{{Key: fmt.Sprintf("client-%d", i), Limit: limit, Cost: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	held, bytes, evicted := testutil.ToFloat64(counts.metrics[0]), testutil.ToFloat64(counts.metrics[1]), testutil.ToFloat64(counts.metrics[2])
	if held+evicted != 200_000 || evicted == 0 || bytes > 32<<20 || bytes < 31<<20 {
		t.Errorf("%v counters in %v bytes, %v evicted; want 200 000 in all, in a quarter of the memory", held, bytes, evicted)
	}
}
