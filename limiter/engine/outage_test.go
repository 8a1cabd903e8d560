package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/store"
)

var errLost = errors.New("the reply was lost")

// unreliableStore is a store in memory of which some counters are unavailable.
type unreliableStore struct {
	*memstore.Store

	mu          sync.Mutex
	unavailable func(key string) bool // as Unavailable reports it
	fails       func(key string) bool // found out only by a call
}

func (s *unreliableStore) Unavailable(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unavailable(key)
}

func (s *unreliableStore) set(unavailable, fails func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unavailable, s.fails = unavailable, fails
}

func (s *unreliableStore) call(charges []limiter.Charge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range charges {
		if s.unavailable(c.Key) {
			panic("called for the unavailable counter " + c.Key)
		}
		if s.fails(c.Key) {
			return errLost
		}
	}
	return nil
}

func (s *unreliableStore) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.call(charges); err != nil {
		return nil, err
	}
	return s.Store.Spend(ctx, charges)
}

func (s *unreliableStore) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.call(charges); err != nil {
		return nil, err
	}
	return s.Store.Peek(ctx, charges)
}

func (s *unreliableStore) ReportUsage(ctx context.Context, charge limiter.Charge) (uncounted bool, err error) {
	if s.Unavailable(charge.Key) {
		return true, nil
	}
	decisions, err := s.Store.Spend(ctx, []limiter.Charge{charge})
	if err == nil && !decisions[0].Allowed {
		charge.Cost = decisions[0].Remaining
		_, err = s.Store.Spend(ctx, []limiter.Charge{charge})
	}
	return false, err
}

func all(string) bool  { return true }
func none(string) bool { return false }

// keysOf returns a function that reports whether a key belongs to one of the policies.
func keysOf(policies ...string) func(string) bool {
	return func(key string) bool {
		return slices.ContainsFunc(policies, func(policy string) bool { return strings.Contains(key, ":"+policy+":") })
	}
}

// outageEngine is an Engine whose store can be made unavailable.
type outageEngine struct {
	*engine.Engine

	clock    *handClock
	store    *unreliableStore
	local    *local.Counters
	failover *failover.Store
	registry *prometheus.Registry
}

func newOutageEngine(t *testing.T, list ...rules.Rule) *outageEngine {
	t.Helper()
	e := &outageEngine{clock: &handClock{}, registry: prometheus.NewPedanticRegistry()}
	e.store = &unreliableStore{Store: memstore.New(e.clock.now), unavailable: none, fails: none}
	e.local = local.New(1<<20, e.clock.now)
	e.failover = failover.New(e.store, e.local, e.clock.now, slog.New(slog.DiscardHandler))
	e.Engine, _ = newLayered(nil, engine.SourceRedis, e.registry, store.Layers{Failover: e.failover, Denials: denials.NewCache(100, e.clock.now)},
		engine.WithClock(e.clock.now))
	e.Swap(index(t, list...))
	return e
}

func onFailure(r rules.Rule, what rules.StoreFailure) rules.Rule {
	r.OnStoreFailure = what
	return r
}

// counted is the number of units that the store has counted for a policy.
func (e *outageEngine) counted(t *testing.T, r rules.Rule) int64 {
	t.Helper()
	limit, err := r.Limit()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := r.KeySpace("weir:")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := e.store.Store.Peek(t.Context(), []limiter.Charge{{Key: keys.Key("acme", ""), Limit: limit}})
	if err != nil {
		t.Fatal(err)
	}
	return limit.Units() - decisions[0].Remaining
}

// summary formats an answer: "local allowed: shop/a true 9 local, …".
func summary(a engine.Answer, err error) string {
	var refused *engine.RefusedError
	switch {
	case errors.As(err, &refused):
		return "refused by " + refused.Policy
	case err != nil:
		return err.Error()
	}
	var results []string
	for _, r := range a.Results {
		results = append(results, fmt.Sprintf("%s %v %d %s", r.Rule.Policy, r.Allowed, r.Remaining, r.Source))
	}
	verdict := "denied"
	if a.Allowed {
		verdict = "allowed"
	}
	return string(a.Source) + " " + verdict + ": " + strings.Join(results, ", ")
}

func TestCheck_AppliesOnStoreFailureWhileTheStoreIsUnavailable(t *testing.T) {
	a, b := rule("shop/a", 10), rule("shop/b", 1)
	allow, deny := onFailure(rule("shop/c", 10), rules.AllowOnFailure), onFailure(rule("shop/d", 10), rules.DenyOnFailure)
	tests := []struct {
		name  string
		rules []rules.Rule
		cost  int64
		want  []string // of requests one after the other
	}{
		{"Local", []rules.Rule{a}, 6, []string{
			"local allowed: shop/a true 4 local", "local denied: shop/a false 4 local",
		}},
		{"Allow", []rules.Rule{allow}, 6, []string{
			"local allowed: shop/c true 10 local", "local allowed: shop/c true 10 local",
		}},
		{"Allow denies a cost above the limit", []rules.Rule{allow}, 11, []string{"local denied: shop/c false 10 local"}},
		{"Deny", []rules.Rule{deny}, 1, []string{"refused by shop/d"}},
		{"Local and Allow", []rules.Rule{a, b, allow}, 1, []string{
			"local allowed: shop/b true 0 local, shop/a true 9 local, shop/c true 10 local",
			"local denied: shop/b false 0 local, shop/a true 9 local, shop/c true 10 local", // and a was not charged
		}},
		{"Local and Deny", []rules.Rule{a, deny}, 1, []string{"refused by shop/d", "refused by shop/d"}},
		{"Local and Deny in shadow", []rules.Rule{a, shadow(deny)}, 1, []string{
			"local allowed: shop/a true 9 local, shop/d true 10 local",
		}},
		{"Local and Local in shadow", []rules.Rule{a, shadow(b)}, 1, []string{
			"local allowed: shop/a true 9 local, shop/b true 0 local", "local allowed: shop/a true 8 local, shop/b false 0 local",
		}},
		{"a cost above the limit of Allow charges no rule", []rules.Rule{rule("shop/a", 100), allow}, 11, []string{
			"local denied: shop/c false 10 local, shop/a true 100 local", "local denied: shop/c false 10 local, shop/a true 100 local",
		}},
	}
	for _, test := range tests {
		for how, set := range map[string]func(*unreliableStore){
			"known before the call": func(s *unreliableStore) { s.set(all, none) },
			"found by the call":     func(s *unreliableStore) { s.set(none, all) },
		} {
			t.Run(test.name+", "+how, func(t *testing.T) {
				e := newOutageEngine(t, test.rules...)
				set(e.store)
				for i, want := range test.want {
					if got := summary(e.Check(t.Context(), request(test.cost, acme()))); got != want {
						t.Errorf("request %d: %s, want %s", i+1, got, want)
					}
				}
			})
		}
	}
}

// All or nothing holds over both parts of the store.
func TestCheck_DecidesLocallyForTheUnavailablePartOfTheStore(t *testing.T) {
	unavailable, remote := rule("shop/unavailable", 2), rule("shop/remote", 10)
	tests := []struct {
		name                string
		unavailable, remote rules.Rule
		fails               func(string) bool
		want                []string
		countedRemotely     int64 // in the store, for the remote rule
		countedLocally      int64 // for the unavailable rule
	}{
		{
			"both allow, then the unavailable rule denies and the remote rule is not charged", unavailable, remote, none,
			[]string{
				"local allowed: shop/unavailable true 1 local, shop/remote true 9 redis",
				"local allowed: shop/unavailable true 0 local, shop/remote true 8 redis",
				"local denied: shop/unavailable false 0 local, shop/remote true 8 redis",
			},
			2, 2,
		},
		{
			"the remote rule denies, and the local charge is refunded", rule("shop/unavailable", 10), rule("shop/remote", 1), none,
			[]string{
				"local allowed: shop/remote true 0 redis, shop/unavailable true 9 local",
				"local denied: shop/remote false 0 redis, shop/unavailable true 9 local",
			},
			1, 1,
		},
		{
			"the call of the remote rule fails", unavailable, remote, keysOf("shop/remote"),
			[]string{"local allowed: shop/unavailable true 1 local, shop/remote true 9 local"},
			0, 1,
		},
		{
			"the call of the remote rule fails, and it denies on failure", unavailable, onFailure(remote, rules.DenyOnFailure), keysOf("shop/remote"),
			[]string{"refused by shop/remote"},
			0, 0,
		},
		{
			"the unavailable rule denies on failure", onFailure(unavailable, rules.DenyOnFailure), remote, none,
			[]string{"refused by shop/unavailable"},
			0, 0,
		},
		{
			"the unavailable rule allows on failure", onFailure(unavailable, rules.AllowOnFailure), remote, none,
			[]string{"local allowed: shop/remote true 9 redis, shop/unavailable true 2 local"},
			1, 0,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := newOutageEngine(t, test.unavailable, test.remote)
			e.store.set(keysOf("shop/unavailable"), test.fails)
			for i, want := range test.want {
				if got := summary(e.Check(t.Context(), request(1, acme()))); got != want {
					t.Errorf("request %d: %s, want %s", i+1, got, want)
				}
			}
			if got := e.counted(t, test.remote); got != test.countedRemotely {
				t.Errorf("the store has counted %d units of the remote rule, want %d", got, test.countedRemotely)
			}
			e.store.set(none, none)
			if err := e.failover.Recovering(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if got := e.counted(t, test.unavailable); got != test.countedLocally {
				t.Errorf("%d units of the unavailable rule were reported to the store, want %d", got, test.countedLocally)
			}
		})
	}
}

func TestCheck_PeekDuringAnOutageChangesNothing(t *testing.T) {
	e := newOutageEngine(t, rule("shop/a", 10), onFailure(rule("shop/c", 10), rules.AllowOnFailure))
	e.store.set(all, none)
	for range 3 {
		peek := request(1, acme())
		peek.Peek = true
		if got, want := summary(e.Check(t.Context(), peek)), "local allowed: shop/a true 10 local, shop/c true 10 local"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if e.local.HasUnreported() {
		t.Error("a peek has unreported units")
	}
}

// An outage begins with what the store counted before it, and ends with the store counting what was spent during it. Neither the
// beginning nor the end of an outage grants the limit a second time.
func TestCheck_OutagesDoNotAddToTheLimit(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket,
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			r := rule("shop/a", 10)
			r.Algorithm = algorithm
			e := newOutageEngine(t, r)
			var admitted int
			send := func(n int) {
				for range n {
					a, err := e.Check(t.Context(), request(1, acme()))
					if err != nil {
						t.Fatal(err)
					}
					if a.Allowed {
						admitted++
					}
				}
			}
			send(4)
			e.store.set(all, none)
			send(3)
			e.store.set(none, none)
			send(1) // reports the 3 units first
			if got := e.counted(t, r); got != 8 {
				t.Errorf("the store has counted %d units, want 8", got)
			}
			e.store.set(all, none)
			send(20)
			e.store.set(none, none)
			if err := e.failover.Recovering(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			send(20)
			if admitted != 10 {
				t.Errorf("%d requests were allowed, want 10", admitted)
			}
		})
	}
}

func TestCheck_KnownDenialHoldsThroughAnOutage(t *testing.T) {
	e := newOutageEngine(t, fixed("shop/a", 1))
	_, _ = e.Check(t.Context(), request(1, acme()))
	_, _ = e.Check(t.Context(), request(1, acme())) // denied by the store
	e.store.set(all, none)
	if got, want := summary(e.Check(t.Context(), request(1, acme()))), "cache denied: shop/a false 0 cache"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	e.clock.pass(5 * time.Second)
	if got, want := summary(e.Check(t.Context(), request(1, acme()))), "local allowed: shop/a true 0 local"; got != want {
		t.Errorf("in the next window: %s, want %s", got, want)
	}
}

func TestRefund_DuringAnOutageRefundsLocally(t *testing.T) {
	r := fixed("shop/a", 2)
	e := newOutageEngine(t, r)
	e.store.set(all, none)
	for range 2 {
		_, _ = e.Check(t.Context(), request(1, acme()))
	}
	if err := e.Refund(t.Context(), []engine.Check{*request(1, acme())}); err != nil {
		t.Fatal(err)
	}
	if got, want := summary(e.Check(t.Context(), request(1, acme()))), "local allowed: shop/a true 0 local"; got != want {
		t.Errorf("after the refund: %s, want %s", got, want)
	}
	e.store.set(none, none)
	if err := e.failover.Recovering(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := e.counted(t, r); got != 2 {
		t.Errorf("%d units were reported to the store, want 2", got)
	}
}

func TestMetrics_CountLocalDecisions(t *testing.T) {
	e := newOutageEngine(t, rule("shop/a", 2), onFailure(rule("bank/a", 2), rules.DenyOnFailure))
	bank := request(1, acme())
	bank.Request.Domain = "bank"
	e.store.set(all, none)
	for range 3 {
		_, _ = e.Check(t.Context(), request(1, acme()))
	}
	for range 2 {
		_, err := e.Check(t.Context(), bank)
		if want := "policy bank/a denies while the store is unavailable"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	peek := *bank
	peek.Peek = true
	_, _ = e.Check(t.Context(), &peek) // is not counted
	want := `
# HELP weir_decisions_total Decisions by policy, without peeks. The result is allowed, denied, uncharged (another policy denied the request) or unlimited (an unlimited tier applies). The tier is empty if the limit of the policy applies, and _other for the tiers of policies beyond the first 512 tiers of a namespace, by age.
# TYPE weir_decisions_total counter
weir_decisions_total{axis="Tenant",policy="bank/a",result="denied",source="local",tier=""} 2
weir_decisions_total{axis="Tenant",policy="shop/a",result="allowed",source="local",tier=""} 2
weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="local",tier=""} 1
`
	if err := testutil.GatherAndCompare(e.registry, strings.NewReader(want), "weir_decisions_total"); err != nil {
		t.Error(err)
	}
	if n := observations(t, e.registry, "weir_store_duration_seconds"); n != 0 {
		t.Errorf("%d calls of the store are counted during an outage, want 0", n)
	}
	e.store.set(none, all)
	_, _ = e.Check(t.Context(), request(1, acme()))
	if n := observations(t, e.registry, "weir_store_duration_seconds"); n != 1 {
		t.Errorf("%d calls of the store are counted after one that failed, want 1", n)
	}
	errs := 0.0
	for _, n := range storeErrors(t, e.registry) {
		errs += n
	}
	if errs != 1 {
		t.Errorf("%v errors of the store, want 1", errs)
	}
	if got, err := testutil.GatherAndCount(e.registry, "weir_local_mode"); err != nil || got != 1 {
		t.Errorf("%d series of weir_local_mode (%v), want 1", got, err)
	}
}

// ResetOnce implements failover.Remote.
func (s *unreliableStore) ResetOnce(ctx context.Context, key, _ string) error {
	return s.Reset(ctx, []string{key}, "")
}

// Four replicas share the limit, of which 20 units are spent in the store. What each refund returns and each edit changes is that of one replica.
func TestCheck_LocalShareIsEqualOrWhole(t *testing.T) {
	equal, whole := rule("shop/a", 100), rule("shop/a", 100)
	whole.LocalShare = rules.WholeShare
	for _, test := range []struct {
		name            string
		rule, edited    rules.Rule
		want, afterEdit int64 // remaining units
	}{
		{"equal, edited to whole", equal, whole, 20, 85}, // 15 are spent here, and each of 4 replicas is assumed to have 5 of the 20 refunded
		{"whole, edited to equal", whole, equal, 80, 6},  // (100 − 15 − 4 · 15)/4
	} {
		e := newOutageEngine(t, test.rule)
		e.local.Share(local.Peers{Replicas: 4, Rank: 3})
		remaining := func(cost int64) int64 {
			a, err := e.Check(t.Context(), &engine.Check{Cost: cost, Peek: cost == 0, Request: request(1, acme()).Request})
			if err != nil {
				t.Fatal(err)
			}
			return a.Results[0].Remaining
		}
		remaining(20)
		e.store.set(all, none)
		if got := remaining(0); got != test.want {
			t.Errorf("%s: %d units remain after 20 in the store, want %d", test.name, got, test.want)
		}
		if err := e.Refund(t.Context(), []engine.Check{*request(5, acme())}); err != nil {
			t.Fatal(err)
		}
		if got := remaining(0); got != test.want+5 {
			t.Errorf("%s: %d units remain after a refund of 5, want %d", test.name, got, test.want+5)
		}
		remaining(15)
		e.Swap(index(t, test.edited))
		if got := remaining(0); got != test.afterEdit {
			t.Errorf("%s: %d units remain after 15 more and the edit, want %d", test.name, got, test.afterEdit)
		}
	}
}
