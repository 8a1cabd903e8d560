package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

var errLost = errors.New("the reply was lost")

// fragile is a store in memory parts of which go away.
type fragile struct {
	*memstore.Store

	mu   sync.Mutex
	away func(key string) bool // told beforehand
	fail func(key string) bool // found out by asking
	lost bool                  // of what is repaid, the answer is lost
}

func (f *fragile) Unavailable(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away(key)
}

func (f *fragile) set(away, fail func(string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away, f.fail = away, fail
}

func (f *fragile) ask(charges []limiter.Charge) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range charges {
		if f.away(c.Key) {
			panic("asked for what is away: " + c.Key)
		}
		if f.fail(c.Key) {
			return errLost
		}
	}
	return nil
}

func (f *fragile) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := f.ask(charges); err != nil {
		return nil, err
	}
	return f.Store.Spend(ctx, charges)
}

func (f *fragile) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := f.ask(charges); err != nil {
		return nil, err
	}
	return f.Store.Peek(ctx, charges)
}

func (f *fragile) ReportUsage(ctx context.Context, charge limiter.Charge) (uncounted bool, err error) {
	if f.Unavailable(charge.Key) {
		return true, nil
	}
	decisions, err := f.Store.Spend(ctx, []limiter.Charge{charge})
	if err == nil && !decisions[0].Allowed {
		charge.Cost = decisions[0].Remaining
		_, err = f.Store.Spend(ctx, []limiter.Charge{charge})
	}
	if f.lost {
		return false, errLost
	}
	return false, err
}

func all(string) bool  { return true }
func none(string) bool { return false }

// of says whether a key is that of one of the policies.
func of(policies ...string) func(string) bool {
	return func(key string) bool {
		return slices.ContainsFunc(policies, func(policy string) bool { return strings.Contains(key, ":"+policy+":") })
	}
}

// siege is an Engine whose store goes away.
type siege struct {
	*engine.Engine

	clock    *handClock
	store    *fragile
	local    *local.Counters
	failover *failover.Store
	registry *prometheus.Registry
	log      bytes.Buffer
}

func newSiege(t *testing.T, list ...rules.Rule) *siege {
	t.Helper()
	s := &siege{clock: &handClock{}, registry: prometheus.NewPedanticRegistry()}
	s.store = &fragile{Store: memstore.New(s.clock.now), away: none, fail: none}
	s.local = local.New(1<<20, s.clock.now)
	s.failover = failover.New(s.store, s.local, s.clock.now, slog.New(slog.NewTextHandler(&s.log, nil)))
	s.Engine = engine.New(s.failover, engine.SourceRedis, engine.NewMetrics(s.registry), engine.RememberDenials(100, s.clock.now))
	s.Swap(index(t, list...))
	return s
}

func onFailure(r rules.Rule, what rules.StoreFailure) rules.Rule {
	r.OnStoreFailure = what
	return r
}

// counted is how many units the store has counted for a policy of limit 10.
func (s *siege) counted(t *testing.T, r rules.Rule) int64 {
	t.Helper()
	limit, err := r.Limit()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := r.KeySpace("weir:")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := s.store.Store.Peek(t.Context(), []limiter.Charge{{Key: keys.Key("acme", ""), Limit: limit}})
	if err != nil {
		t.Fatal(err)
	}
	return limit.Units() - decisions[0].Remaining
}

// said renders an answer: "local allowed: shop/a true 9 local, …".
func said(a engine.Answer, err error) string {
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

func TestWhileTheStoreIsAwayEveryRuleSaysWhatDecides(t *testing.T) {
	a, b := rule("shop/a", 10), rule("shop/b", 1)
	allow, deny := onFailure(rule("shop/c", 10), rules.AllowOnFailure), onFailure(rule("shop/d", 10), rules.DenyOnFailure)
	tests := []struct {
		name  string
		rules []rules.Rule
		cost  int64
		want  []string // of requests one after the other
	}{
		{"locally", []rules.Rule{a}, 6, []string{
			"local allowed: shop/a true 4 local", "local denied: shop/a false 4 local",
		}},
		{"not at all", []rules.Rule{allow}, 6, []string{
			"local allowed: shop/c true 10 local", "local allowed: shop/c true 10 local",
		}},
		{"not at all, but what no limit admits", []rules.Rule{allow}, 11, []string{"local denied: shop/c false 10 local"}},
		{"by denying", []rules.Rule{deny}, 1, []string{"refused by shop/d"}},
		{"each for itself", []rules.Rule{a, b, allow}, 1, []string{
			"local allowed: shop/b true 0 local, shop/a true 9 local, shop/c true 10 local",
			"local denied: shop/b false 0 local, shop/a true 9 local, shop/c true 10 local", // and a was not charged
		}},
		{"together with one that denies", []rules.Rule{a, deny}, 1, []string{"refused by shop/d", "refused by shop/d"}},
		{"a shadow that would deny", []rules.Rule{a, shadow(deny)}, 1, []string{
			"local allowed: shop/a true 9 local, shop/d true 10 local",
		}},
		{"a shadow that is over", []rules.Rule{a, shadow(b)}, 1, []string{
			"local allowed: shop/a true 9 local, shop/b true 0 local", "local allowed: shop/a true 8 local, shop/b false 0 local",
		}},
		{"a cost above an uncounted limit charges none", []rules.Rule{rule("shop/a", 100), allow}, 11, []string{
			"local denied: shop/c false 10 local, shop/a true 100 local", "local denied: shop/c false 10 local, shop/a true 100 local",
		}},
	}
	for _, test := range tests {
		for how, set := range map[string]func(*fragile){
			"known to be": func(f *fragile) { f.set(all, none) },
			"found to be": func(f *fragile) { f.set(none, all) },
		} {
			t.Run(test.name+", "+how, func(t *testing.T) {
				s := newSiege(t, test.rules...)
				set(s.store)
				for i, want := range test.want {
					if got := said(s.Check(t.Context(), ask(test.cost, acme()))); got != want {
						t.Errorf("request %d: %s, want %s", i+1, got, want)
					}
				}
			})
		}
	}
}

// TestWhereAPartOfTheStoreIsAwayTheRestDecides: all or nothing, over both.
func TestWhereAPartOfTheStoreIsAwayTheRestDecides(t *testing.T) {
	near, far := rule("shop/near", 2), rule("shop/far", 10)
	tests := []struct {
		name       string
		near, far  rules.Rule
		fail       func(string) bool
		want       []string
		counted    int64 // of far, in the store
		nearCounts int64 // of near, locally
	}{
		{
			"both allow, then the near one denies and the far one is not charged", near, far, none,
			[]string{
				"local allowed: shop/near true 1 local, shop/far true 9 redis",
				"local allowed: shop/near true 0 local, shop/far true 8 redis",
				"local denied: shop/near false 0 local",
			},
			2, 2,
		},
		{
			"the far one denies, and the near one is taken back", rule("shop/near", 10), rule("shop/far", 1), none,
			[]string{
				"local allowed: shop/far true 0 redis, shop/near true 9 local",
				"local denied: shop/far false 0 redis, shop/near true 9 local",
			},
			1, 1,
		},
		{
			"the far one is found to be away as well", near, far, of("shop/far"),
			[]string{"local allowed: shop/near true 1 local, shop/far true 9 local"},
			0, 1,
		},
		{
			"the far one is found to be away and denies", near, onFailure(far, rules.DenyOnFailure), of("shop/far"),
			[]string{"refused by shop/far"},
			0, 0,
		},
		{
			"the near one denies", onFailure(near, rules.DenyOnFailure), far, none,
			[]string{"refused by shop/near"},
			0, 0,
		},
		{
			"the near one is not counted", onFailure(near, rules.AllowOnFailure), far, none,
			[]string{"local allowed: shop/far true 9 redis, shop/near true 2 local"},
			1, 0,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSiege(t, test.near, test.far)
			s.store.set(of("shop/near"), test.fail)
			for i, want := range test.want {
				if got := said(s.Check(t.Context(), ask(1, acme()))); got != want {
					t.Errorf("request %d: %s, want %s", i+1, got, want)
				}
			}
			if got := s.counted(t, test.far); got != test.counted {
				t.Errorf("the store has counted %d for the far one, want %d", got, test.counted)
			}
			s.store.set(none, none)
			if err := s.failover.Recovering(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if got := s.counted(t, test.near); got != test.nearCounts {
				t.Errorf("the store was told of %d units of the near one, want %d", got, test.nearCounts)
			}
		})
	}
}

func TestAPeekDuringAnOutageChangesNothing(t *testing.T) {
	a := rule("shop/a", 10)
	s := newSiege(t, a, onFailure(rule("shop/c", 10), rules.AllowOnFailure))
	s.store.set(all, none)
	for range 3 {
		peek := ask(1, acme())
		peek.Peek = true
		if got, want := said(s.Check(t.Context(), peek)), "local allowed: shop/a true 10 local, shop/c true 10 local"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if s.local.HasUnreported() {
		t.Error("a peek is owed")
	}
}

// TestAnOutageBeginsWithWhatTheStoreToldLastAndEndsWithItBeingTold: neither is a second limit.
func TestAnOutageBeginsWithWhatTheStoreToldLastAndEndsWithItBeingTold(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket,
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			r := rule("shop/a", 10)
			r.Algorithm = algorithm
			s := newSiege(t, r)
			var admitted int
			pass := func(n int) {
				for range n {
					a, err := s.Check(t.Context(), ask(1, acme()))
					if err != nil {
						t.Fatal(err)
					}
					if a.Allowed {
						admitted++
					}
				}
			}
			pass(4)
			s.store.set(all, none)
			pass(3)
			s.store.set(none, none)
			pass(1) // which tells the store first
			if got := s.counted(t, r); got != 8 {
				t.Errorf("the store has counted %d of 8", got)
			}
			s.store.set(all, none)
			pass(20)
			s.store.set(none, none)
			if err := s.failover.Recovering(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			pass(20)
			if admitted != 10 {
				t.Errorf("%d of 10 were admitted", admitted)
			}
		})
	}
}

func TestAKnownOffenderIsKnownThroughAnOutage(t *testing.T) {
	s := newSiege(t, fixed("shop/a", 1))
	_, _ = s.Check(t.Context(), ask(1, acme()))
	_, _ = s.Check(t.Context(), ask(1, acme())) // denied by the store
	s.store.set(all, none)
	if got, want := said(s.Check(t.Context(), ask(1, acme()))), "cache denied: shop/a false 0 cache"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.clock.pass(5 * time.Second)
	if got, want := said(s.Check(t.Context(), ask(1, acme()))), "local allowed: shop/a true 0 local"; got != want {
		t.Errorf("in the next window: %s, want %s", got, want)
	}
}

func TestWhatCannotBeToldIsOwedOnAndWhatMayHaveBeenToldIsNot(t *testing.T) {
	synctest.Test(t, owedOn)
}

func owedOn(t *testing.T) {
	a, b := rule("shop/a", 10), rule("shop/b", 10)
	s := newSiege(t, a, b)
	s.store.set(all, none)
	for range 3 {
		_, _ = s.Check(t.Context(), ask(1, acme()))
	}
	s.store.set(of("shop/a"), none) // one part is back
	if err := s.failover.Recovering(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // for the rest, which Recovering leaves to be told behind its back
	if s.counted(t, a) != 0 || s.counted(t, b) != 3 || s.local.Stats().Unreported != 1 {
		t.Errorf("counted are %d and %d units, owing is %+v", s.counted(t, a), s.counted(t, b), s.local.Stats())
	}
	s.store.set(none, none)
	s.store.lost = true
	if err := s.failover.Recovering(t.Context(), 0); !errors.Is(err, errLost) {
		t.Errorf("when an answer is lost: %v", err)
	}
	s.store.lost = false
	if err := s.failover.Recovering(t.Context(), 0); err != nil || s.counted(t, a) != 3 {
		t.Errorf("told of twice: %d units of 3, %v", s.counted(t, a), err)
	}
	for result, want := range map[string]float64{"counted": 3, "unknown": 3, "uncounted": 0} {
		if got := valueOf(t, s.registry, `weir_local_repaid_units_total`, "result", result); got != want {
			t.Errorf("%s: %v units, want %v", result, got, want)
		}
	}
}

// TestAnOutageIsToldAtItsBeginningAndItsEnd in the log, and in metrics.
func TestAnErrorThatMakesNoOutageIsToldNowAndThen(t *testing.T) {
	s := newSiege(t, rule("shop/a", 2))
	s.store.set(none, all)
	for range 3 {
		if answer, err := s.Check(t.Context(), ask(1, acme())); err != nil || answer.Source != engine.SourceLocal {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	if log := s.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `msg="request decided locally because of an unexpected error of the store"`) || !strings.Contains(log, errLost.Error()) {
		t.Errorf("three decisions without the store are told of with\n%s", log)
	}
}

func TestAnOutageIsToldAtItsBeginningAndItsEnd(t *testing.T) {
	s := newSiege(t, rule("shop/a", 2), onFailure(rule("bank/a", 2), rules.DenyOnFailure))
	bank := ask(1, acme())
	bank.Request.Domain = "bank"
	for range 2 { // two outages
		s.store.set(all, none)
		s.failover.Unavailable("redis-0", errLost)
		s.failover.Unavailable("redis-1", errLost)
		s.failover.Unavailable("redis-1", errLost)
		for range 3 {
			_, _ = s.Check(t.Context(), ask(1, acme()))
		}
		_, _ = s.Check(t.Context(), bank)
		s.clock.pass(time.Minute)
		if since, away := s.failover.LocalMode(); !away || !since.Equal(s.clock.now().Add(-time.Minute)) {
			t.Errorf("local since %v, %v", since, away)
		}
		s.failover.Recovered("redis-0")
		if got := valueOf(t, s.registry, "weir_local_mode", "", ""); got != 1 {
			t.Errorf("weir_local_mode is %v while a part is away", got)
		}
		s.store.set(none, none)
		s.failover.Recovered("redis-1")
		s.failover.Recovered("redis-1")
	}
	if _, away := s.failover.LocalMode(); away {
		t.Error("it is local when all is back")
	}
	for name, want := range map[string]float64{
		"weir_local_mode": 0, "weir_local_mode_activations_total": 2, "weir_local_mode_seconds_total": 120,
	} {
		if got := valueOf(t, s.registry, name, "", ""); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := strings.Count(s.log.String(), "store unavailable"); n != 4 {
		t.Errorf("%d lines say that a store is away, want 4:\n%s", n, &s.log)
	}
	if n := strings.Count(s.log.String(), `msg="store available again" store=redis-1 after=1m0s allowed=2 denied=1 refused=1`); n != 2 {
		t.Errorf("%d lines tell how an outage was, want 2:\n%s", n, &s.log)
	}
	want := `
# HELP weir_decisions_total Decisions by policy, without peeks. The result is allowed, denied, uncharged (another policy denied the request) or unlimited (an unlimited tier applies).
# TYPE weir_decisions_total counter
weir_decisions_total{axis="Tenant",policy="bank/a",result="denied",source="local"} 2
weir_decisions_total{axis="Tenant",policy="shop/a",result="allowed",source="local"} 4
weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="local"} 2
`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want), "weir_decisions_total"); err != nil {
		t.Error(err)
	}
}

// valueOf is the value of a metric, with a label if one is named; 0 if there is none.
func valueOf(t *testing.T, registry *prometheus.Registry, name, label, value string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label == "" || (len(m.GetLabel()) == 1 && m.GetLabel()[0].GetName() == label && m.GetLabel()[0].GetValue() == value) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// TestManyOutagesAtOnceHarmNothing is for the race detector.
func TestManyOutagesAtOnceHarmNothing(t *testing.T) {
	s := newSiege(t, rule("shop/a", 1_000_000), rule("shop/b", 1_000_000))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Check(t.Context(), ask(1, map[string]string{"tenant": fmt.Sprint("tenant-", i%2)})); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 200 {
		s.store.set(none, []func(string) bool{all, none, of("shop/a")}[i%3])
		if err := s.failover.Recovering(t.Context(), time.Millisecond); err != nil {
			t.Error(err)
		}
		_, _ = s.registry.Gather()
	}
	close(stop)
	wg.Wait()
	s.store.set(none, none)
	for range 3 {
		if err := s.failover.Recovering(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(0, s.local.Stats().Unreported); diff != "" {
		t.Error(diff)
	}
}

// TestWhereAnotherPartTakesOverSharesAreKeptForAMoment: the counter is back in a part that never was away, while the one
// that held it still is. Others may not know yet, and admit their shares.
func TestWhereAnotherPartTakesOverSharesAreKeptForAMoment(t *testing.T) {
	s := newSiege(t, rule("shop/a", 9))
	s.local.Share(local.Peers{Replicas: 3})
	s.store.set(all, all)
	s.failover.Unavailable("node-1", errors.New("gone"))
	admitted := func() (units int) {
		for range 20 {
			answer, err := s.Check(t.Context(), ask(1, acme()))
			if err != nil {
				t.Fatal(err)
			}
			if answer.Allowed {
				units++
			}
		}
		return units
	}
	if got := admitted(); got != 3 {
		t.Errorf("%d units admitted while the counter is away, want the share of 3", got)
	}
	s.store.set(none, none)
	s.clock.pass(500*time.Millisecond - time.Microsecond)
	if got := admitted(); got != 0 {
		t.Errorf("%d units admitted within half a second, want 0: the share is used up", got)
	}
	s.clock.pass(time.Microsecond)
	if got := admitted(); got != 6 {
		t.Errorf("%d units admitted after half a second, want the 6 that the store knows to be left", got)
	}
}
