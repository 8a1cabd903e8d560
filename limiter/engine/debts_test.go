package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// tokens is a fixed window of 5 seconds whose charges are debts.
func tokens(units int64) rules.Rule {
	r := fixed("shop/tokens", units)
	r.Debt = true
	return r
}

// wantDenied checks whether a peek is denied.
func wantDenied(t *testing.T, e *engine.Engine, c *engine.Check, want bool) {
	t.Helper()
	peek := *c
	peek.Peek = true
	answer, err := e.Check(t.Context(), &peek)
	if err != nil || answer.Allowed == want {
		t.Errorf("allowed %v, %v, want denied: %v", answer.Allowed, err, want)
	}
}

func TestCheck_ADebtIsCountedAlthoughItsDenialIsKnown(t *testing.T) {
	o := newCachingEngine(t, tokens(10))
	o.wantCalled(t, "a debt", request(60, acme()), true)
	for range 2 {
		o.wantCalled(t, "a debt that is denied", request(1, acme()), true)
	}
	if err := o.Refund(t.Context(), []engine.Check{*request(52, acme())}); err != nil {
		t.Fatal(err)
	}
	wantDenied(t, o.Engine, request(1, acme()), true)
	if err := o.Refund(t.Context(), []engine.Check{*request(1, acme())}); err != nil {
		t.Fatal(err)
	}
	wantDenied(t, o.Engine, request(1, acme()), false)
}

func TestCheck_ADebtIsCountedAlthoughAnotherRuleIsKnownToDeny(t *testing.T) {
	o := newCachingEngine(t, tokens(10), fixed("shop/requests", 1))
	o.wantCalled(t, "the first request", request(1, acme()), true)
	for i := range 3 {
		answer := o.wantCalled(t, "a request that the other rule denies", request(1, acme()), true)
		got := lines(answer)
		want := []string{"shop/requests acme false 0", fmt.Sprintf("shop/tokens acme true %d", 8-i)}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%v, want %v", got, want)
		}
	}
	o.wantCalled(t, "a request without cost", request(0, acme()), true)
	decisions(t, o.registry, "shop/requests allowed ||\nshop/requests denied |||\nshop/tokens allowed |||||\n")
}

// A denied debt prevents other charges, and keeps its own.
func TestCheck_ADenialOfADebtIsNotRemembered(t *testing.T) {
	o := newCachingEngine(t, tokens(1))
	o.wantCalled(t, "the first request", request(1, acme()), true)
	o.wantCalled(t, "the second request", request(1, acme()), true)
	undebted := fixed("shop/tokens", 1)
	o.Swap(index(t, undebted)) // the same counter
	o.clock.pass(time.Microsecond)
	o.wantCalled(t, "after the edit", request(1, acme()), true)
	o.wantCalled(t, "a known denial", request(1, acme()), false)
}

func TestCheckAll_ChargesOfOneCounterAreOneDebt(t *testing.T) {
	e, _ := newEngine(t, tokens(10))
	answers, err := e.CheckAll(t.Context(), []engine.Check{*request(7, acme()), *request(7, acme())})
	if err != nil || !answers[0].Allowed || !answers[1].Allowed || answers[1].Results[0].Remaining != 0 {
		t.Errorf("%+v, %v", answers, err)
	}
	wantDenied(t, e, request(1, acme()), true)
}

func TestCheckAll_CountsOnlyDebtsOfARequestThatIsDeniedElsewhere(t *testing.T) {
	e, registry := newEngine(t, tokens(10), fixed("shop/requests", 9))
	c := *request(3, acme())
	c.Peek, c.CountDebts = true, true
	for _, left := range []int{7, 4} {
		answers, err := e.CheckAll(t.Context(), []engine.Check{c})
		if err != nil {
			t.Fatal(err)
		}
		got, want := lines(answers[0]), []string{fmt.Sprintf("shop/tokens acme true %d", left), "shop/requests acme true 9"}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	decisions(t, registry, "shop/requests uncharged ||\nshop/tokens allowed ||\n")
}

// Denied new identifiers must not fill up the shared counter.
func TestOverflow_DeniesDebtsWithoutCountingThem(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 10, Deny: true}, tokens(10))
	if denied := b.flood(t, 0, 1000); denied < 900 {
		t.Fatalf("%d of 1000 are denied", denied)
	}
	if n := b.store.Len(); n > 100 {
		t.Errorf("%d counters", n)
	}
	for rule := range b.Index().Rules() {
		if _, exists := b.store.Expires(rule.Keys.SharedKey("")); exists {
			t.Error("the shared counter exists")
		}
	}
}

// A debt makes a counter although another rule denies the request, so such requests count for the bound.
func TestOverflow_CountsDebtsOfDeniedRequests(t *testing.T) {
	all := fixed("shop/all", 1)
	all.Identifier = rules.Identifier{From: rules.FromHeader, Name: "nothing"}
	b := newBounded(t, bound.Identifiers{Max: 10}, tokens(10), all)
	b.flood(t, 0, 1000)
	if n := b.store.Len(); n > 100 {
		t.Errorf("%d counters, want about 10", n)
	}
}
