package envoy

import (
	"fmt"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// referenceOf starts a server that answers as the rate limit service of the Envoy project. hits has what Count was called with.
func referenceOf(t *testing.T, countsDenied bool, limits map[string]*ReferenceLimit, list ...rules.Rule) (w *world, hits *[]string) {
	t.Helper()
	c, counted := noon(), []string{}
	for policy, limit := range limits {
		limit.Count = func(n int64, r *engine.Result) {
			counted = append(counted, fmt.Sprintf("%s %d %t", policy, n, r.Allowed))
		}
	}
	for i := range list {
		list[i].Debt, list[i].WholeDebt = countsDenied, countsDenied
	}
	w = serve(t, Options{
		Engine: newEngine(t, c, list...), Style: "RateLimit",
		Reference: &Reference{Limit: func(policy string) *ReferenceLimit { return limits[policy] }, CountsDenied: countsDenied},
	})
	w.clock = c
	return w, &counted
}

func TestReference_AnswersWithStatusesAlone(t *testing.T) {
	w, hits := referenceOf(t, true, map[string]*ReferenceLimit{"shop/a": {}, "shop/b": {Name: "named"}},
		per("a", 3, time.Hour, "generic_key=a"), per("b", 5, time.Minute, "user"))
	wantJSON(t, w.ask(t, describe("generic_key=a"), describe("user=u1"), describe("unknown=x")), `{
	  "overallCode": "OK",
	  "statuses": [
	    {"code": "OK", "currentLimit": {"requestsPerUnit": 3, "unit": "HOUR"}, "limitRemaining": 2, "durationUntilReset": "3600s"},
	    {"code": "OK", "currentLimit": {"name": "named", "requestsPerUnit": 5, "unit": "MINUTE"}, "limitRemaining": 4, "durationUntilReset": "60s"},
	    {"code": "OK"}]}`)
	if got := fmt.Sprint(*hits); got != "[shop/a 1 true shop/b 1 true]" {
		t.Errorf("counted %s", got)
	}
}

func TestReference_ChargesEachDescriptorAlsoIfAnotherOneIsDenied(t *testing.T) {
	w, _ := referenceOf(t, true, nil, per("a", 1, time.Hour, "generic_key=a"), per("b", 4, time.Minute, "user"))
	for i, want := range []string{"OK: OK 0, OK 3", "OVER_LIMIT: OVER_LIMIT 0, OK 2", "OVER_LIMIT: OVER_LIMIT 0, OK 1", "OVER_LIMIT: OVER_LIMIT 0, OK 0"} {
		if got := summary(w.ask(t, describe("generic_key=a"), describe("user=u1"))); got != want {
			t.Errorf("request %d: %s, want %s", i+1, got, want)
		}
	}
	wantSummary(t, w.ask(t, describe("user=u1")), "OVER_LIMIT: OVER_LIMIT 0")
}

// The hits of a request that is over its limit use up what remains, and more.
func TestReference_CountsHits(t *testing.T) {
	for name, test := range map[string]struct {
		asked []*ratelimitv3.RateLimitRequest
		want  string
	}{
		"more than remains":         {[]*ratelimitv3.RateLimitRequest{request(counting(2, "generic_key=a")), request(counting(2, "generic_key=a"))}, "OVER_LIMIT: OVER_LIMIT 0"},
		"more than remains is used": {[]*ratelimitv3.RateLimitRequest{request(counting(2, "generic_key=a")), request(counting(2, "generic_key=a")), request(describe("generic_key=a"))}, "OVER_LIMIT: OVER_LIMIT 0"},
		"exactly what remains":      {[]*ratelimitv3.RateLimitRequest{request(counting(2, "generic_key=a")), request(counting(1, "generic_key=a"))}, "OK: OK 0"},
		"no hits at the limit":      {[]*ratelimitv3.RateLimitRequest{request(counting(3, "generic_key=a")), request(counting(0, "generic_key=a"))}, "OK: OK 0"},
		"no hits above the limit":   {[]*ratelimitv3.RateLimitRequest{request(counting(4, "generic_key=a")), request(counting(0, "generic_key=a"))}, "OVER_LIMIT: OVER_LIMIT 0"},
		"no hits count nothing":     {[]*ratelimitv3.RateLimitRequest{request(counting(0, "generic_key=a")), request(counting(0, "generic_key=a"))}, "OK: OK 3"},
		"no hits and hits": {
			[]*ratelimitv3.RateLimitRequest{request(counting(4, "generic_key=a")), request(counting(0, "generic_key=a"), counting(1, "user=u1")), request(counting(0, "user=u1"))}, "OK: OK 4",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := referenceOf(t, true, nil, per("a", 3, time.Hour, "generic_key=a"), per("b", 5, time.Minute, "user"))
			var answer *ratelimitv3.RateLimitResponse
			for _, r := range test.asked {
				var err error
				if answer, err = w.rls.ShouldRateLimit(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			wantSummary(t, answer, test.want)
		})
	}
}

func TestReference_ReportsTheEndOfAnEmptyWindow(t *testing.T) {
	w, _ := referenceOf(t, true, nil, per("a", 3, time.Hour, "generic_key=a"))
	got := w.ask(t, counting(0, "generic_key=a")).GetStatuses()[0].GetDurationUntilReset().AsDuration()
	want := time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)) // the clock of the endpoint is the system's
	if d := got - want; d < -time.Minute || d > time.Minute {
		t.Errorf("reset after %v, want about %v", got, want)
	}
}

func TestReference_ReportsShadowLimits(t *testing.T) {
	shadow := per("a", 1, time.Hour, "generic_key=a")
	shadow.Shadow = true
	w, hits := referenceOf(t, true, map[string]*ReferenceLimit{"shop/a": {}}, shadow)
	for _, want := range []string{"OK: OK 0", "OK: OK 0"} {
		wantSummary(t, w.ask(t, describe("generic_key=a")), want)
	}
	if got := fmt.Sprint(*hits); got != "[shop/a 1 true shop/a 1 false]" {
		t.Errorf("counted %s", got)
	}
}

func TestReference_ReportsALimitOfZero(t *testing.T) {
	zero := per("a", 1, time.Hour, "generic_key=a")
	zero.Cost = &rules.Cost{Value: 2}
	w, _ := referenceOf(t, true, map[string]*ReferenceLimit{"shop/a": {Zero: true}}, zero)
	answer := w.ask(t, describe("generic_key=a"))
	wantSummary(t, answer, "OVER_LIMIT: OVER_LIMIT 0")
	if got := answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(); got != 0 {
		t.Errorf("a limit of %d, want 0", got)
	}
}

// withLimit returns a descriptor with a limit per hour, as Envoy sends it with limit.fromMetadata of Envoy Gateway.
func withLimit(units uint32, text string) *descriptorv3.RateLimitDescriptor {
	d := describe(text)
	d.Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: units, Unit: typev3.RateLimitUnit_HOUR}
	return d
}

func TestReference_ALimitInTheRequestReplacesALimitOfZero(t *testing.T) {
	for _, countsDenied := range []bool{true, false} {
		zero := per("a", 1, time.Hour, "generic_key=a")
		zero.Cost = &rules.Cost{Value: 2}
		w, _ := referenceOf(t, countsDenied, map[string]*ReferenceLimit{"shop/a": {Zero: true}}, zero)
		for i, want := range []string{"OK: OK 2", "OK: OK 1", "OK: OK 0", "OVER_LIMIT: OVER_LIMIT 0"} {
			answer := w.ask(t, withLimit(3, "generic_key=a"))
			wantSummary(t, answer, want)
			if got := answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(); got != 3 {
				t.Errorf("request %d: a limit of %d, want 3", i+1, got)
			}
		}
		for _, d := range []*descriptorv3.RateLimitDescriptor{describe("generic_key=a"), withLimit(0, "generic_key=a")} {
			answer := w.ask(t, d)
			wantSummary(t, answer, "OVER_LIMIT: OVER_LIMIT 0")
			if got := answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(); got != 0 {
				t.Errorf("without a limit in the request: a limit of %d, want 0", got)
			}
		}
	}
}

func TestReference_ALimitInTheRequestAboveTheMaximumIsTheMaximum(t *testing.T) {
	w, _ := referenceOf(t, true, nil, per("a", 5, time.Hour, "generic_key=a"))
	for i, units := range []uint32{1_000_000_000, 1_000_000_001, 4_294_967_295} {
		answer := w.ask(t, withLimit(units, "generic_key=a"))
		wantSummary(t, answer, fmt.Sprintf("OK: OK %d", 999_999_999-i))
		if got := answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(); got != 1_000_000_000 {
			t.Errorf("%d: a limit of %d, want 1000000000", units, got)
		}
	}
}

// Without whole debts, a descriptor with 0 hits is denied if nothing remains, because nothing above the limit is ever counted.
func TestReference_AllOrNothingDeniesATestIfNothingRemains(t *testing.T) {
	w, _ := referenceOf(t, false, nil, per("a", 2, time.Hour, "generic_key=a"), per("b", 5, time.Minute, "user"))
	wantSummary(t, w.ask(t, counting(2, "generic_key=a")), "OK: OK 0")
	wantSummary(t, w.ask(t, counting(0, "generic_key=a")), "OVER_LIMIT: OVER_LIMIT 0")
	wantSummary(t, w.ask(t, describe("generic_key=a"), describe("user=u1")), "OVER_LIMIT: OVER_LIMIT 0, OK 5")
}

// A rule decides 0 hits, and denied requests, in its own way, whatever the other rules of the request do.
func TestReference_RulesCanDifferInWhatTheyCount(t *testing.T) {
	for _, countsDenied := range []bool{true, false} {
		t.Run(fmt.Sprintf("denied hits count: %t", countsDenied), func(t *testing.T) {
			debt, own := per("debt", 2, time.Hour, "debt"), per("own", 2, time.Hour, "own")
			debt.Debt, debt.WholeDebt = true, true
			w := serve(t, Options{
				Engine: newEngine(t, noon(), debt, own), Style: "RateLimit",
				Reference: &Reference{
					Limit: func(string) *ReferenceLimit { return nil }, CountsDenied: countsDenied, Mixed: func() bool { return true },
				},
			})
			for i, step := range []struct {
				hits map[string]int
				want string
			}{
				{map[string]int{"debt": 1, "own": 1}, "OK: OK 1, OK 1"},
				{map[string]int{"debt": 0, "own": 0}, "OK: OK 1, OK 1"},
				{map[string]int{"debt": 1, "own": 2}, "OVER_LIMIT: OK 0, OVER_LIMIT 1"}, // own does not count what it denies
				{map[string]int{"debt": 1, "own": 1}, "OVER_LIMIT: OVER_LIMIT 0, OK 1"}, // nor what debt denies, which counts it
				{map[string]int{"debt": 0, "own": 1}, "OVER_LIMIT: OVER_LIMIT 0, OK 1"}, // a test that fails prevents the charge
				{map[string]int{"own": 1}, "OK: OK 0"},
				{map[string]int{"own": 0}, "OVER_LIMIT: OVER_LIMIT 0"}, // nothing remains
				{map[string]int{"debt": 5, "own": 0}, "OVER_LIMIT: OVER_LIMIT 0, OVER_LIMIT 0"},
			} {
				var descriptors []*descriptorv3.RateLimitDescriptor
				for _, key := range []string{"debt", "own"} {
					if hits, asked := step.hits[key]; asked {
						descriptors = append(descriptors, counting(uint64(hits), key+"=x"))
					}
				}
				if got := summary(w.ask(t, descriptors...)); got != step.want {
					t.Errorf("step %d: %s, want %s", i+1, got, step.want)
				}
			}
		})
	}
}

// Envoy Gateway sends the descriptors of all routes of a listener, also of those without a limit.
func TestReference_AllowsATestWithoutALimit(t *testing.T) {
	for name, isMixed := range map[string]bool{"one algorithm": false, "several algorithms": true} {
		w := serve(t, Options{
			Engine: newEngine(t, noon(), per("a", 2, time.Hour, "own")), Style: "RateLimit",
			Reference: &Reference{Limit: func(string) *ReferenceLimit { return nil }, Mixed: func() bool { return isMixed }},
		})
		if got := summary(w.ask(t, counting(0, "unknown=x"), counting(1, "own=x"))); got != "OK: OK -, OK 1" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
