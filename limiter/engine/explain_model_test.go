package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

// Explain names the policies in the order of the answer that Check then gives, and the same waits.
func TestExplain_OrdersPoliciesLikeCheck(t *testing.T) {
	several, debts := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		clock := &handClock{}
		e := engine.New(memstore.New(clock.now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
		var list []rules.Rule
		for i := range rapid.IntRange(2, 5).Draw(rt, "policies") {
			list = append(list, drawExplained(rt, i))
		}
		e.Swap(index(t, list...))
		for range rapid.IntRange(20, 60).Draw(rt, "requests") { // enough for the counts below
			clock.pass(time.Duration(rapid.SampledFrom([]int64{0, 1, 999, 2_500_000, 5_000_000, 61_000_000}).Draw(rt, "microseconds")) * time.Microsecond)
			ask := request(rapid.Int64Range(0, 4).Draw(rt, "cost"), map[string]string{"tenant": rapid.SampledFrom([]string{"acme", "globex"}).Draw(rt, "tenant")})
			ask.NoDelay = rapid.IntRange(0, 3).Draw(rt, "no delay") == 0
			ask.MaxDelay = time.Duration(rapid.IntRange(0, 3).Draw(rt, "max delay")) * 10 * time.Second
			x := explain(t, e, ask)
			answer, err := e.Check(rt.Context(), ask)
			if err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(policiesOf(answer), policiesOf(x.Answer)); diff != "" || x.Answer.Allowed != answer.Allowed || x.Answer.Delay != answer.Delay {
				rt.Fatalf("at %v, cost %d: decided %v, explained %v (-decided +explained):\n%s",
					time.Duration(clock.passed.Load()), ask.Cost, lines(answer), lines(x.Answer), diff)
			}
			for i, r := range answer.Results {
				if r.RetryAfter != x.Answer.Results[i].RetryAfter {
					rt.Fatalf("policy %s: wait for %v, explained as %v", r.Rule.Policy, r.RetryAfter, x.Answer.Results[i].RetryAfter)
				}
				if r.Rule.Debt && !r.Allowed && r.Rule.Algorithm == limiter.SlidingWindowCounter {
					debts++
				}
			}
			if len(answer.Results) > 1 && answer.Results[0].Rule.Policy != "shop/p0" {
				several++
			}
		}
	})
	if several < 100 || debts < 100 {
		t.Errorf("another policy than the first in the alphabet decided only %d times, and %d debts were denied: this test has proved little", several, debts)
	}
}

func policiesOf(a engine.Answer) (names []string) {
	for _, r := range a.Results {
		names = append(names, r.Rule.Policy)
	}
	return names
}

// drawExplained draws a policy for all requests. Its units take whole microseconds, see limiter.Charge.Counted.
func drawExplained(rt *rapid.T, i int) rules.Rule {
	r := rule(fmt.Sprintf("shop/p%d", i), rapid.SampledFrom([]int64{1, 2, 3, 4, 5, 6, 8, 10, 12, 100}).Draw(rt, "units"))
	r.Algorithm = rapid.SampledFrom(limiter.Algorithms()).Draw(rt, "algorithm")
	if r.Algorithm == limiter.TokenBucket || r.Algorithm == limiter.LeakyBucket {
		r.Burst = rapid.Int64Range(1, 12).Draw(rt, "burst")
	}
	if rapid.Bool().Draw(rt, "costs") {
		r.Cost = &rules.Cost{Value: rapid.Int64Range(1, 3).Draw(rt, "value")}
	}
	if r.Algorithm == limiter.FixedWindow || r.Algorithm == limiter.SlidingWindowCounter {
		r.Debt = rapid.Bool().Draw(rt, "debt")
		r.WholeDebt = r.Debt && rapid.Bool().Draw(rt, "whole")
	}
	r.Shadow = rapid.IntRange(0, 4).Draw(rt, "shadow") == 4
	return r
}

// A policy that allows everything while the store is unavailable counts nothing there: all its units remain.
func TestExplain_OrdersPoliciesLikeCheckDuringAnOutage(t *testing.T) {
	e := newOutageEngine(t, onFailure(rule("shop/a-allow", 10), rules.AllowOnFailure), rule("shop/b-local", 20))
	e.store.set(all, none)
	ask := request(1, map[string]string{"tenant": "acme"})
	x := explain(t, e.Engine, ask)
	answer, err := e.Check(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"shop/b-local acme true 20", "shop/a-allow acme true 10"}; !slices.Equal(lines(x.Answer), want) {
		t.Errorf("explained %q, want %q", lines(x.Answer), want)
	}
	if want := []string{"shop/b-local acme true 19", "shop/a-allow acme true 10"}; !slices.Equal(lines(answer), want) {
		t.Errorf("decided %q, want %q", lines(answer), want)
	}
}
