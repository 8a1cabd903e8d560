package engine_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
)

func explain(t *testing.T, e *engine.Engine, c *engine.Check) engine.Explanation {
	t.Helper()
	x, err := e.Explain(t.Context(), *c)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExplain_ReportsWhatCheckWouldDecide(t *testing.T) {
	free := rule("shop/tight", 2)
	free.Cost = &rules.Cost{Value: 2}
	free.Tiers = []rules.Tier{{Name: "gold", When: rules.When{Identifiers: []string{"acme"}}, Units: 3}}
	e, _ := newEngine(t, rule("shop/wide", 100), free, rule("other/one", 1))
	ask := request(1, map[string]string{"tenant": "acme"})
	for want := range 2 { // 2 of 3 units are used by the first request, the second is denied
		x := explain(t, e, ask)
		if again := explain(t, e, ask); again.Policies[1].Used != x.Policies[1].Used {
			t.Fatalf("Explain has spent: %d units are used, then %d", x.Policies[1].Used, again.Policies[1].Used)
		}
		p := x.Policies[1]
		if p.Rule.Policy != "shop/tight" || p.Identifier != "acme" || p.Terms.Tier != "gold" || p.Terms.Cost != 2 || p.Terms.Limit.Units() != 3 {
			t.Errorf("%+v", p)
		}
		if p.Used != int64(2*want) || p.Result == nil || p.Result.Remaining != int64(3-2*want) || p.Result.Allowed != (want == 0) {
			t.Errorf("after %d requests: used %d, result %+v", want, p.Used, p.Result)
		}
		if other := x.Policies[0]; other.Failed != matching.ConditionDomain || other.Result != nil || other.Key != "" {
			t.Errorf("%+v", other)
		}
		answer, err := e.Check(t.Context(), ask)
		if err != nil || answer.Allowed != x.Answer.Allowed || answer.Strictest().Rule != x.Answer.Strictest().Rule {
			t.Errorf("explained %+v, decided %+v (%v)", x.Answer, answer, err)
		}
		if key := answer.Strictest().Key; key != p.Key {
			t.Errorf("explained the counter %s, decided on %s", p.Key, key)
		}
	}
}

func TestExplain_ReportsUnlimitedTiersAndMissingIdentifiers(t *testing.T) {
	r := rule("shop/a", 5)
	r.Tiers = []rules.Tier{{Name: "staff", When: rules.When{Identifiers: []string{"us"}}, Unlimited: true}}
	e, _ := newEngine(t, r)
	x := explain(t, e, request(1, map[string]string{"tenant": "us"}))
	if p := x.Policies[0]; !p.Terms.Unlimited || p.Terms.Tier != "staff" || p.Result != nil || p.Identifier != "us" || !x.Answer.Allowed {
		t.Errorf("%+v %+v", p, x.Answer)
	}
	if p := explain(t, e, request(1, nil)).Policies[0]; p.Identifier != "-" || p.Result == nil {
		t.Errorf("a request without identifier: %+v", p)
	}
}

// A replica denies from memory while a denial is known, although the counter would admit the request, for example after a refund that the
// replica has not heard of.
func TestExplain_AnswersWithKnownDenials(t *testing.T) {
	counters := memstore.New(epoch)
	e, _ := newLayered(counters, engine.SourceRedis, prometheus.NewRegistry(), store.Layers{Denials: denials.NewCache(10, epoch)}, engine.WithClock(epoch))
	e.Swap(index(t, rule("shop/a", 1)))
	ask := request(1, map[string]string{"tenant": "acme"})
	for range 2 {
		if _, err := e.Check(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
	}
	key := explain(t, e, ask).Policies[0].Key
	if err := counters.Reset(t.Context(), []string{key}, ""); err != nil {
		t.Fatal(err)
	}
	x := explain(t, e, ask)
	if x.Answer.Allowed || x.Answer.Source != engine.SourceCache {
		t.Errorf("answer %+v, want the known denial", x.Answer)
	}
	if p := x.Policies[0]; p.Used != 0 || !p.Result.Allowed {
		t.Errorf("the counter: %+v, want that of the store", p)
	}
}

func TestExplain_NamesThePolicyThatRefusesDuringAnOutage(t *testing.T) {
	e := newOutageEngine(t, rule("shop/a", 10), onFailure(rule("shop/b", 10), rules.DenyOnFailure))
	e.store.set(all, none)
	x := explain(t, e.Engine, request(1, map[string]string{"tenant": "acme"}))
	if diff := cmp.Diff(engine.Answer{}, x.Answer); diff != "" || x.Refused != "shop/b" {
		t.Errorf("refused by %q (-want +got):\n%s", x.Refused, diff)
	}
	if p := x.Policies[1]; p.Key == "" || p.Identifier != "acme" || p.Result != nil {
		t.Errorf("the policy that refuses: %+v", p)
	}
}

// Check answers a known denial without the store, so no policy refuses the request.
func TestExplain_AnswersWithKnownDenialsDuringAnOutage(t *testing.T) {
	e := newOutageEngine(t, onFailure(rule("shop/a", 1), rules.DenyOnFailure))
	ask := request(1, map[string]string{"tenant": "acme"})
	for range 2 {
		if _, err := e.Check(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
	}
	e.store.set(all, none)
	x := explain(t, e.Engine, ask)
	const want = "cache denied: shop/a false 0 cache"
	if got := summary(x.Answer, nil); got != want || x.Refused != "" {
		t.Errorf("explained %q, refused by %q, want %q", got, x.Refused, want)
	}
	if got := summary(e.Check(t.Context(), ask)); got != want {
		t.Errorf("decided %q", got)
	}
}

func TestExplain_ReportsTheSharedCounterOfIdentifiersOverTheBound(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 10}, rule("shop/a", 1000))
	b.flood(t, 0, 1000)
	shared := explain(t, b.Engine, request(1, map[string]string{"tenant": "new"})).Policies[0]
	own := explain(t, b.Engine, request(1, map[string]string{"tenant": "invented-1"})).Policies[0]
	if !shared.Shared || own.Shared || shared.Key == own.Key {
		t.Errorf("new: %+v\nknown: %+v", shared, own)
	}
}

func TestExplain_WithoutRules(t *testing.T) {
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	if _, err := e.Explain(t.Context(), *request(1, nil)); !errors.Is(err, engine.ErrNoRules) {
		t.Errorf("error %v", err)
	}
}

// A role that can only read must not take the paths of clients.
func TestExplain_TakesNoPath(t *testing.T) {
	endpoints := rule("shop/a", 1)
	endpoints.Axis, endpoints.Identifier = "Endpoint", rules.Identifier{From: rules.FromEndpoint}
	e, _ := newEngine(t, endpoints)
	ask := func(path string) *engine.Check {
		return &engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: path}}
	}
	for n := range 1100 {
		path := "/explained/" + strconv.Itoa(n)
		if x := explain(t, e, ask(path)); x.Policies[0].Identifier != path || !x.Answer.Allowed {
			t.Fatalf("%s is explained as %+v", path, x.Policies[0])
		}
	}
	for _, path := range []string{"/a", "/b"} {
		peek := ask("/peeked" + path)
		peek.Peek = true
		for _, c := range []*engine.Check{peek, ask(path)} {
			if answer, err := e.Check(t.Context(), c); err != nil || !answer.Allowed || answer.Results[0].Identifier != c.Request.Path {
				t.Errorf("%s: %+v, %v", c.Request.Path, answer, err)
			}
		}
	}
}
