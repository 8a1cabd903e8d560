package bound

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
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
		if got, want := limit.LongestWait(), decisions[0].ResetAfter; got != want {
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
		if got := classOf(&limiter.Charge{Limit: limit, Override: true}); got != want {
			t.Errorf("%v: class %d, want %d", window, got, want)
		}
	}
	longest, err := limiter.NewLimit(limiter.SlidingWindowCounter, 1, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	if got := classOf(&limiter.Charge{Limit: longest, Override: true}); got != 23 {
		t.Errorf("a counter of two windows has class %d, want 23", got)
	}
	bucket, err := limiter.NewLimit(limiter.TokenBucket, 1, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	if bucket, err = bucket.WithBurst(100); err != nil {
		t.Fatal(err)
	}
	if got := classOf(&limiter.Charge{Limit: bucket, Override: true}); got != 23 {
		t.Errorf("a bucket that drains for years has class %d, want the last one, 23", got)
	}
}

func TestSwap_DropsThePopulationsOfRulesThatNoLongerExist(t *testing.T) {
	p := New(Identifiers{Max: 10}, time.Now)
	limit, err := limiter.NewLimit(limiter.TokenBucket, 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	version := func() *limiter.CountedRule {
		return &limiter.CountedRule{Policy: "shop/a", Lifetime: time.Minute, Keys: limiter.NewKeySpace("weir:", "Tenant", "shop/a", limit)}
	}
	first, edited := version(), version()
	layer := p.Above(memstore.New(time.Now), nil)
	var active []*limiter.CountedRule
	for _, step := range []struct {
		what  string
		kept  []*limiter.CountedRule
		asked *limiter.CountedRule
		want  int
	}{
		{"one rule", []*limiter.CountedRule{first}, first, 1},
		{"an edit that keeps the counters", []*limiter.CountedRule{edited}, edited, 1},
		{"no rule", nil, nil, 0},
		{"a request that a removed rule has matched before", nil, edited, 0},
	} {
		if !slices.Equal(active, step.kept) {
			p.Swap(active, step.kept)
		}
		active = step.kept
		if step.asked != nil {
			if _, err := layer.Spend(t.Context(), []limiter.Charge{{Key: "k", Limit: limit, Cost: 1, Rule: step.asked}}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(p.byKeys); n != step.want {
			t.Errorf("%s: %d populations, want %d", step.what, n, step.want)
		}
		n := 0
		for range p.rules.Range {
			n++
		}
		if n != len(step.kept) || len(p.active) != len(step.kept) || len(p.kept) != len(step.kept) {
			t.Errorf("%s: %d, %d and %d rules, want %d", step.what, n, len(p.active), len(p.kept), len(step.kept))
		}
	}
}
