package bound_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/memstore"
)

// recording records the charges of its calls, which fail if err is not nil.
type recording struct {
	limiter.Store

	charges []limiter.Charge
	err     error
}

func (r *recording) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	r.charges = append([]limiter.Charge(nil), charges...)
	if r.err != nil {
		return nil, r.err
	}
	return r.Store.Spend(ctx, charges)
}

// crowdedRule returns a layer, what it asks about moved requests, and a charge for an identifier of a rule with too many counters.
func crowdedRule(t *testing.T) (layer limiter.Store, counters *bound.Counters, shared *recording, charge func(identifier string) limiter.Charge) {
	t.Helper()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	limit, err := limiter.NewLimit(limiter.FixedWindow, 10_000, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	rule := &limiter.CountedRule{Policy: "shop/a", Lifetime: time.Minute, Keys: limiter.NewKeySpace("weir:", "Tenant", "shop/a", limit)}
	charge = func(identifier string) limiter.Charge {
		return limiter.Charge{
			Key: rule.Keys.Key(identifier, ""), Limit: limit, Cost: 1, Rule: rule, Lease: &limiter.LeaseTerms{MaxPercent: 10, MaxAge: time.Second},
		}
	}
	next := memstore.New(clock)
	shared = &recording{Store: next}
	counters = bound.New(bound.Identifiers{Max: 100}, clock)
	layer = counters.Above(next, shared)
	for i := range 1000 {
		if _, err := layer.Spend(t.Context(), []limiter.Charge{charge(fmt.Sprint("invented-", i))}); err != nil {
			t.Fatal(err)
		}
	}
	if len(shared.charges) != 1 {
		t.Fatal("the rule has not too many counters")
	}
	return layer, counters, shared, charge
}

func TestSpend_MovesNewIdentifiersToOneExactCharge(t *testing.T) {
	layer, _, shared, charge := crowdedRule(t)
	for isAlternative, want := range map[bool]int64{false: 5, true: 3} {
		a, old, b := charge("new-a"), charge("invented-0"), charge("new-b")
		a.Cost, b.Cost = 2, 3
		a.Alternative, b.Alternative = isAlternative, isAlternative
		decisions, err := layer.Spend(t.Context(), []limiter.Charge{a, old, b})
		if err != nil {
			t.Fatal(err)
		}
		if got := shared.charges; len(got) != 2 || got[0].Key != a.SharedKey() || got[0].Cost != want || got[0].Lease != nil || got[1].Key != old.Key || got[1].Lease == nil {
			t.Errorf("alternative %t: asked for %+v, want %d units of the shared counter without a lease, and one of the identifier's", isAlternative, got, want)
		}
		for i, want := range []bool{true, false, true} {
			if decisions[i].Shared != want {
				t.Errorf("decision %d is about the shared counter: %t", i, !want)
			}
		}
	}
}

func TestSpend_CountsNoIdentifierOnTheSharedCounter(t *testing.T) {
	layer, counters, _, charge := crowdedRule(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(counters)
	before := testutil.ToFloat64(counters)
	for i := range 1000 {
		if _, err := layer.Spend(t.Context(), []limiter.Charge{charge(fmt.Sprint("late-", i))}); err != nil {
			t.Fatal(err)
		}
	}
	if after := testutil.ToFloat64(counters); after != before || before > 200 {
		t.Errorf("%v counters are live, and %v before 1000 identifiers that share one", after, before)
	}
}

// The caller knows its own charges, not the moved ones.
func TestSpend_ErrorsAreAboutTheChargesOfTheRequest(t *testing.T) {
	layer, _, shared, charge := crowdedRule(t)
	request := []limiter.Charge{charge("new-a"), charge("new-b"), charge("invented-0")} // the first two become one
	shared.err = fmt.Errorf("next: %w", &limiter.RefusedError{Charge: 1})
	_, err := layer.Spend(t.Context(), request)
	if refused, is := errors.AsType[*limiter.RefusedError](err); !is || refused.Charge != 2 {
		t.Errorf("%v, want that the third charge is refused", err)
	}
	shared.err = &limiter.PartialError{Decisions: []limiter.Decision{{Limit: 1}, {Limit: 2}}, Cause: limiter.ErrOverloaded}
	_, err = layer.Spend(t.Context(), request)
	partial, is := errors.AsType[*limiter.PartialError](err)
	if !is || len(partial.Decisions) != 3 || partial.Decisions[1].Limit != 1 || partial.Decisions[2].Limit != 2 {
		t.Errorf("%+v, want a decision for each charge", partial)
	}
	shared.err = limiter.ErrReplyLost
	if _, err := layer.Spend(t.Context(), request); !errors.Is(err, limiter.ErrReplyLost) {
		t.Errorf("%v", err)
	}
}
