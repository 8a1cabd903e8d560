package engine_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

// newTimed returns an engine whose store uses the returned clock.
func newTimed(t *testing.T, list ...rules.Rule) (*engine.Engine, *handClock) {
	t.Helper()
	clock := &handClock{}
	e := engine.New(memstore.New(clock.now), engine.SourceMemory, engine.NewMetrics(prometheus.NewPedanticRegistry()))
	e.Swap(index(t, list...))
	return e, clock
}

func tenant(name string) map[string]string { return map[string]string{"tenant": name} }

// format formats each answer as whether it is allowed, followed by the lines of its results.
func format(answers []engine.Answer) []string {
	var out []string
	for _, a := range answers {
		out = append(out, strings.Join(append([]string{strconv.FormatBool(a.Allowed)}, lines(a)...), ", "))
	}
	return out
}

func TestCheckAll_ChargesAllRequestsOrNone(t *testing.T) {
	e, _ := newEngine(t, rule("shop/a", 3), shadow(rule("shop/b", 1)))
	elsewhere := *request(1, tenant("acme"))
	elsewhere.Request.Domain = "unknown"
	steps := []struct {
		name   string
		checks []engine.Check
		want   []string
	}{
		{
			"each answer has its own results",
			[]engine.Check{*request(1, tenant("acme")), *request(2, tenant("globex"))},
			[]string{"true, shop/a acme true 2, shop/b acme true 0", "true, shop/a globex true 1, shop/b globex false 1"},
		},
		{
			"one denied request prevents the charge of the other, and the shadow rule denies neither",
			[]engine.Check{*request(1, tenant("acme")), *request(2, tenant("globex"))},
			[]string{"true, shop/a acme true 2, shop/b acme false 0", "false, shop/a globex false 1, shop/b globex false 1"},
		},
		{
			"two requests of one tenant are charged as one",
			[]engine.Check{*request(1, tenant("acme")), *request(1, tenant("acme"))},
			[]string{"true, shop/a acme true 0, shop/b acme false 0", "true, shop/a acme true 0, shop/b acme false 0"},
		},
		{
			"a request that no rule limits is allowed together with a denial",
			[]engine.Check{elsewhere, *request(1, tenant("acme"))},
			[]string{"true", "false, shop/a acme false 0, shop/b acme false 0"},
		},
		{"no requests", nil, nil},
	}
	for _, step := range steps {
		answers, err := e.CheckAll(t.Context(), step.checks)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, format(answers)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestCheckAll_CountsTheOtherRequestsOfADenialAsUncharged(t *testing.T) {
	e, registry := newEngine(t, rule("shop/a", 1))
	for range 2 {
		if _, err := e.CheckAll(t.Context(), []engine.Check{*request(1, tenant("acme")), *request(2, tenant("globex"))}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `
# HELP weir_decisions_total Decisions by policy, without peeks. The result is allowed, denied, uncharged (another policy denied the request) or unlimited (an unlimited tier applies). The tier is empty if the limit of the policy applies, and _other for the tiers of policies beyond the first 512 tiers of a namespace, by age.
# TYPE weir_decisions_total counter
weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="memory",tier=""} 2
weir_decisions_total{axis="Tenant",policy="shop/a",result="uncharged",source="memory",tier=""} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "weir_decisions_total"); err != nil {
		t.Error(err)
	}
}

func TestCheck_CostZeroIsDecidedAndChangesNothing(t *testing.T) {
	e, _ := newEngine(t, rule("shop/a", 1))
	for _, step := range []struct {
		cost      int64
		allowed   bool
		remaining int64
	}{{0, true, 1}, {0, true, 1}, {1, true, 0}, {0, true, 0}, {1, false, 0}} {
		answer, err := e.Check(t.Context(), request(step.cost, acme()))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Allowed != step.allowed || answer.Results[0].Remaining != step.remaining {
			t.Errorf("cost %d: %v, want allowed %v with %d remaining", step.cost, lines(answer), step.allowed, step.remaining)
		}
	}
}

func TestCheck_CostAboveAnyLimitIsNeverAllowed(t *testing.T) {
	e, _ := newEngine(t, rule("shop/a", 3))
	answer, err := e.Check(t.Context(), request(math.MaxInt64, acme()))
	if err != nil || answer.Allowed || answer.Results[0].RetryAfter != limiter.Never {
		t.Errorf("%+v, %v", answer, err)
	}
}

// The test spends 1 unit at 0 s, 1 at 10 s and 2 at 20 s, and refunds 3. The unit that was spent first stays counted.
func TestRefund_RefundsTheUnitsThatWereSpentLast(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket,
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			r := rule("shop/a", 4)
			r.Algorithm = algorithm
			e, clock := newTimed(t, r)
			for _, spend := range []struct {
				after time.Duration
				cost  int64
			}{{0, 1}, {10 * time.Second, 1}, {10 * time.Second, 2}} {
				clock.pass(spend.after)
				if _, err := e.Check(t.Context(), request(spend.cost, acme())); err != nil {
					t.Fatal(err)
				}
			}
			peek := *request(1, acme())
			peek.Peek = true
			before, err := e.Check(t.Context(), &peek)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Refund(t.Context(), []engine.Check{*request(3, acme())}); err != nil {
				t.Fatal(err)
			}
			after, err := e.Check(t.Context(), &peek)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := after.Results[0].Remaining, min(4, before.Results[0].Remaining+3); got != want {
				t.Errorf("%d remain after the refund, want %d", got, want)
			}
			if algorithm == limiter.SlidingWindowLog && after.Results[0].ResetAfter != 40*time.Second {
				t.Errorf("the full limit is available in %v, want 40 s: the first unit stays counted", after.Results[0].ResetAfter)
			}
		})
	}
}

func TestRefund_OfMoreThanWasSpentLeavesTheFullLimit(t *testing.T) {
	e, _ := newTimed(t, rule("shop/a", 4), rule("shop/b", 9))
	for _, spent := range []int64{1, 1} {
		if _, err := e.Check(t.Context(), request(spent, acme())); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Refund(t.Context(), []engine.Check{*request(100, acme()), *request(1, tenant("unknown"))}); err != nil {
		t.Fatal(err)
	}
	answer, err := e.Check(t.Context(), request(1, acme()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop/a acme true 3", "shop/b acme true 8"}, lines(answer)); diff != "" {
		t.Errorf("after the refund (-want +got):\n%s", diff)
	}
}

func TestRefund_DropsTheKnownDenial(t *testing.T) {
	o := newCachingEngine(t, rule("shop/a", 1))
	o.wantCalled(t, "the first", request(1, acme()), true)
	o.wantCalled(t, "a denial", request(1, acme()), true)
	o.wantCalled(t, "a known denial", request(1, acme()), false)
	if err := o.Refund(t.Context(), []engine.Check{*request(1, acme())}); err != nil {
		t.Fatal(err)
	}
	if answer := o.wantCalled(t, "after the refund", request(1, acme()), true); !answer.Allowed {
		t.Errorf("denied after the refund: %v", lines(answer))
	}
}

func TestRefund_ErrorNamesThePolicy(t *testing.T) {
	broken := brokenStore{errors.New("gone")}
	e := engine.New(broken, engine.SourceRedis, engine.NewMetrics(prometheus.NewPedanticRegistry()))
	if err := e.Refund(t.Context(), nil); !errors.Is(err, engine.ErrNoRules) {
		t.Errorf("before there are rules: %v", err)
	}
	e.Swap(index(t, rule("shop/a", 1)))
	if err := e.Refund(t.Context(), []engine.Check{*request(1, acme())}); err == nil || !strings.HasPrefix(err.Error(), "refund shop/a: ") {
		t.Errorf("error %v", err)
	}
}

// The policy allows one unit per second, with a queue of two.
func TestCheck_NoDelayDeniesARequestThatWouldWait(t *testing.T) {
	r := rule("shop/a", 60)
	r.Algorithm, r.Burst = limiter.LeakyBucket, 2
	e, clock := newTimed(t, r)
	check := func(noDelay bool, cost int64) engine.Answer {
		c := request(cost, acme())
		c.NoDelay = noDelay
		answer, err := e.Check(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if a := check(true, 0); a.Results[0].Remaining != 3 {
		t.Errorf("an empty bucket: %d remain for a request that cannot wait, want 3", a.Results[0].Remaining)
	}
	if a := check(true, 1); !a.Allowed || a.Delay != 0 || a.Results[0].Remaining != 0 {
		t.Errorf("an empty bucket: allowed %v after %v, then %d remain", a.Allowed, a.Delay, a.Results[0].Remaining)
	}
	if a := check(true, 1); a.Allowed || a.Results[0].RetryAfter != time.Second {
		t.Errorf("a request that would wait: allowed %v, retry after %v", a.Allowed, a.Results[0].RetryAfter)
	}
	if a := check(false, 1); !a.Allowed || a.Delay != time.Second {
		t.Errorf("a request that can wait: allowed %v after %v", a.Allowed, a.Delay)
	}
	clock.pass(2*time.Second - time.Microsecond)
	if a := check(true, 1); a.Allowed || a.Results[0].RetryAfter != time.Microsecond {
		t.Errorf("a microsecond early: allowed %v, retry after %v", a.Allowed, a.Results[0].RetryAfter)
	}
	clock.pass(time.Microsecond)
	if a := check(true, 1); !a.Allowed || a.Delay != 0 {
		t.Errorf("on time: allowed %v after %v", a.Allowed, a.Delay)
	}
}

func TestCheck_OverrideHasItsOwnCounters(t *testing.T) {
	e, clock := newTimed(t, rule("shop/a", 1))
	ten := func(units int64, window time.Duration) *engine.Check {
		c := request(1, acme())
		c.Override = &engine.Override{Units: units, Window: window}
		return c
	}
	steps := []struct {
		name  string
		pass  time.Duration
		check *engine.Check
		want  string
	}{
		{"the limit of the rule", 0, request(1, acme()), "shop/a acme true 0"},
		{"the limit of the rule again", 0, request(1, acme()), "shop/a acme false 0"},
		{"10 per minute", 0, ten(10, time.Minute), "shop/a acme true 9"},
		{"10 per second has another counter", 0, ten(10, time.Second), "shop/a acme true 9"},
		{"20 per minute has the counter of 10 per minute", 0, ten(20, time.Minute), "shop/a acme true 18"},
		{"10 per minute again", 30 * time.Second, ten(10, time.Minute), "shop/a acme true 7"},
		{"3 per minute are spent", 0, ten(3, time.Minute), "shop/a acme false 0"},
		{"4 per minute are not", 0, ten(4, time.Minute), "shop/a acme true 0"},
		{"an invalid limit keeps the limit of the rule", 0, ten(0, time.Minute), "shop/a acme false 0"},
		{"a window of a year is invalid", 0, ten(10, 365*24*time.Hour), "shop/a acme false 0"},
	}
	for _, step := range steps {
		clock.pass(step.pass)
		answer, err := e.Check(t.Context(), step.check)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{step.want}, lines(answer)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestSwap_KeepsThePathsThatHaveCountersOfTheirOwn(t *testing.T) {
	endpoints := rule("shop/a", 1_000_000)
	endpoints.Axis, endpoints.Identifier = "Endpoint", rules.Identifier{From: rules.FromEndpoint}
	e, _ := newEngine(t, endpoints)
	identifier := func(path string) string {
		answer, err := e.Check(t.Context(), &engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: path}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Results[0].Identifier
	}
	for n := range 1000 {
		if path := "/" + strconv.Itoa(n); identifier(path) != path {
			t.Fatalf("path %s is counted as %s", path, identifier(path))
		}
	}
	e.Swap(index(t, endpoints, rule("other/b", 1)))
	if got := identifier("/more"); got != "*" {
		t.Errorf("a path beyond the first 1000 is counted as %s after an edit, want *", got)
	}
	if got := identifier("/7"); got != "/7" {
		t.Errorf("a path with its own counter is counted as %s after an edit, want /7", got)
	}
}

// Two limits of one call on one counter are the lower one: the higher one would let the other request exceed its limit.
func TestCheckAll_OverridesOfOneCounterAreTheLowest(t *testing.T) {
	for _, units := range [][2]int64{{3, 7}, {7, 3}} {
		e, _ := newTimed(t, rule("shop/a", 1))
		checks := []engine.Check{*request(2, acme()), *request(2, acme())}
		for i := range checks {
			checks[i].Override = &engine.Override{Units: units[i], Window: time.Minute}
		}
		answers, err := e.CheckAll(t.Context(), checks)
		if err != nil || answers[0].Allowed || answers[1].Allowed {
			t.Errorf("%v: %+v, %v, want a denial of 4 of 3", units, answers, err)
		}
	}
}
