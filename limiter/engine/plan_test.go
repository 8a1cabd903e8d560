package engine_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

// A replay matches many requests before it decides them. Each has the results of a Check at its time.
func TestPlan_DecidesAsCheck(t *testing.T) {
	decidesAsCheck(t, &engine.Plan{})
}

// A Store can know the counters of a request without the keys of its charges.
func TestPlan_DecidesAsCheckWithoutKeys(t *testing.T) {
	decidesAsCheck(t, &engine.Plan{Keyless: true})
}

// keyed is a Store that knows the keys of the request that is decided. They are all in the charges, or not one of them is.
type keyed struct {
	limiter.Store
	t       *testing.T
	keys    []string
	keyless int // the charges that it has seen
}

func (k *keyed) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	for i := range charges {
		if charges[i].Key != "" {
			continue
		}
		if len(charges) != len(k.keys) {
			k.t.Errorf("%d of %d charges, without keys", len(charges), len(k.keys))
		}
		charges[i].Key = k.keys[i]
		k.keyless++
	}
	return k.Store.Spend(ctx, charges)
}

func decidesAsCheck(t *testing.T, plan *engine.Plan) {
	t.Helper()
	now := time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	block, trial, missing := rule("shop/block", 0), shadow(rule("shop/shadow", 1)), rule("shop/user", 9)
	block.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "plan", Value: "blocked"}}
	missing.Identifier, missing.OnMissing = rules.Identifier{From: rules.FromHeader, Name: "user"}, rules.DenyMissing
	shared := rule("shop/session", 9)
	shared.Identifier = rules.Identifier{From: rules.FromHeader, Name: "session"}
	set := []rules.Rule{block, trial, rule("shop/tenant", 3), missing, shared}
	newOn := func(store limiter.Store) *engine.Engine {
		e := engine.New(store, engine.SourceMemory, engine.NewMetrics(nil))
		e.Swap(index(t, slices.Clone(set)...))
		return e
	}
	store := &keyed{Store: memstore.New(clock), t: t}
	planned, checked := newOn(store), newOn(memstore.New(clock))
	var checks []engine.Check
	for i := range 40 {
		headers := map[string]string{"tenant": strconv.Itoa(i % 3), "plan": []string{"", "blocked"}[i/4%2]}
		if i%5 > 0 {
			headers["user"] = "u"
		}
		if i%4 > 0 {
			headers["session"] = "s"
		}
		check := *request(1, headers)
		if i%4 == 1 { // is unreadable
			check.Request.RepeatedHeaders = []string{"session"}
		}
		checks = append(checks, check)
	}
	for range 2 { // a plan is used again
		if err := planned.Plan(t.Context(), plan, checks); err != nil {
			t.Fatal(err)
		}
		for i := range checks {
			now = now.Add(time.Second)
			begin, end := plan.Request(i)
			store.keys = nil
			for number := begin; number < end; number++ {
				store.keys = append(store.keys, string(plan.KeyText(number)))
			}
			decisions, allowed, err := planned.Decide(t.Context(), plan, i, false)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := checked.Check(t.Context(), &checks[i])
			if err != nil {
				t.Fatal(err)
			}
			var results []engine.Result
			for j := range decisions {
				if r := planned.Result(plan, begin+j, &decisions[j]); decisions[j].Origin == 0 {
					r.Rule, _ = checked.Index().RuleOf(r.Rule.Policy)
					results = append(results, r)
				}
			}
			slices.SortStableFunc(results, engine.CompareResults)
			if allowed != answer.Allowed || len(decisions) != end-begin || !slices.Equal(results, answer.Results) {
				t.Fatalf("request %d: %v %+v, want %v %+v", i, allowed, results, answer.Allowed, answer.Results)
			}
		}
	}
	if plan.Keyless != (store.keyless > 0) {
		t.Errorf("%d charges without keys", store.keyless)
	}
}

func TestPlan_NeedsRules(t *testing.T) {
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(nil))
	if err := e.Plan(t.Context(), &engine.Plan{}, nil); !errors.Is(err, engine.ErrNoRules) {
		t.Errorf("%v", err)
	}
}
