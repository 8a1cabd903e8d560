package engine

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestLifetime_IsTheTimeToLiveOfAFullCounter(t *testing.T) {
	windowBegins := time.Unix(0, 0).Add(1000 * time.Hour)
	for _, algorithm := range limiter.Algorithms() {
		limit, err := limiter.NewLimit(algorithm, 10, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if bursting, err := limit.WithBurst(50); err == nil {
			limit = bursting
		}
		store := memstore.New(func() time.Time { return windowBegins })
		charge := limiter.Charge{Key: "k", Limit: limit, Cost: limit.Capacity()}
		decisions, err := store.Spend(t.Context(), []limiter.Charge{charge})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := lifetime(limit), decisions[0].ResetAfter; got != want {
			t.Errorf("%s: %v, want %v", algorithm, got, want)
		}
	}
}

func TestOverrideClass_LastsAtLeastAsLongAsTheCounters(t *testing.T) {
	for window, want := range map[time.Duration]int{
		time.Second: 0, 2 * time.Second: 1, 3 * time.Second: 2, time.Minute: 6, limiter.MaxWindow: 22,
	} {
		limit, err := limiter.NewLimit(limiter.FixedWindow, 1, window)
		if err != nil {
			t.Fatal(err)
		}
		if got := overrideClass(limit); got != want {
			t.Errorf("%v: class %d, want %d", window, got, want)
		}
	}
	longest, err := limiter.NewLimit(limiter.SlidingWindowCounter, 1, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	if got := overrideClass(longest); got != 23 {
		t.Errorf("a counter of two windows has class %d, want 23", got)
	}
	bucket, err := limiter.NewLimit(limiter.TokenBucket, 1, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	if bucket, err = bucket.WithBurst(100); err != nil {
		t.Fatal(err)
	}
	if got := overrideClass(bucket); got != 23 {
		t.Errorf("a bucket that drains for years has class %d, want the last one, 23", got)
	}
}

func TestMultiplied_IsExactBelowAnyBound(t *testing.T) {
	for _, test := range []struct{ cost, times, want int64 }{
		{3, 7, 21},
		{666_666_666, 3, 1_999_999_998},
		{666_666_667, 3, 2_000_000_000},
		{math.MaxInt64, math.MaxInt64, 2_000_000_000},
		{5, 0, 0},
		{0, 5, 0},
		{-5, 5, 0},
		{5, -5, 0},
	} {
		if got := multiplied(test.cost, test.times); got != test.want {
			t.Errorf("%d · %d: %d, want %d", test.cost, test.times, got, test.want)
		}
	}
}

func TestSwap_DropsThePopulationsOfRulesThatNoLongerExist(t *testing.T) {
	e := New(memstore.New(time.Now), SourceMemory, NewMetrics(prometheus.NewRegistry()), BoundIdentifiers(Identifiers{Max: 10}))
	swap := func(list ...rules.Rule) {
		x, err := matching.NewIndex(rules.Set{Rules: list}, "sha256:1", "weir:")
		if err != nil {
			t.Fatal(err)
		}
		e.Swap(x)
	}
	tenants := rules.Rule{
		Policy: "shop/a", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.TokenBucket, Units: 10, WindowSeconds: 60,
	}
	swap(tenants)
	if _, err := e.Check(t.Context(), ofAcme()); err != nil {
		t.Fatal(err)
	}
	if n := len(e.populations.byKey); n != 1 {
		t.Fatalf("%d populations of one rule", n)
	}
	swap(tenants)
	if n := len(e.populations.byKey); n != 1 {
		t.Errorf("%d populations of the same rule", n)
	}
	swap()
	if n := len(e.populations.byKey); n != 0 {
		t.Errorf("%d populations without a rule", n)
	}
}
