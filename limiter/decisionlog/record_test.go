package decisionlog_test

import (
	"bytes"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// answerOf returns an answer with one result, which waits for a retry if it is a denial.
func answerOf(allowed bool, retry time.Duration) *engine.Answer {
	result := engine.Result{
		Rule: &matching.Compiled{Rule: rules.Rule{Policy: "shop/tenant", Axis: "Tenant"}}, Identifier: "acme", Tier: "gold",
		Decision: limiter.Decision{Allowed: allowed, Limit: 5, Remaining: 3, RetryAfter: retry},
	}
	return &engine.Answer{Allowed: allowed, Results: []engine.Result{result}, Source: engine.SourceRedis, Revision: "sha256:1"}
}

func TestRecord_DescribesTheAnswer(t *testing.T) {
	common := map[string]any{
		"level": "INFO", "msg": "decision", "endpoint": "rls", "domain": "shop", "policy": "shop/tenant", "axis": "Tenant", "identifier": "acme",
		"tier": "gold", "limit": 5.0, "remaining": 3.0, "source": "redis", "revision": "sha256:1",
	}
	for name, test := range map[string]struct {
		answer  *engine.Answer
		charged bool
		own     map[string]any
	}{
		"allowed":         {answerOf(true, 0), true, map[string]any{"result": "allowed"}},
		"uncharged":       {answerOf(true, 0), false, map[string]any{"result": "uncharged"}},
		"never allowed":   {answerOf(false, limiter.Never), false, map[string]any{"result": "denied", "denied": []any{"shop/tenant"}}},
		"denied, 1 ms":    {answerOf(false, time.Millisecond), false, map[string]any{"result": "denied", "retryAfterMs": 1.0, "denied": []any{"shop/tenant"}}},
		"denied, 1.001":   {answerOf(false, 1001*time.Microsecond), false, map[string]any{"result": "denied", "retryAfterMs": 2.0, "denied": []any{"shop/tenant"}}},
		"denied, 0.001":   {answerOf(false, time.Microsecond), false, map[string]any{"result": "denied", "retryAfterMs": 1.0, "denied": []any{"shop/tenant"}}},
		"denied, 2.5 sec": {answerOf(false, 2500*time.Millisecond), false, map[string]any{"result": "denied", "retryAfterMs": 2500.0, "denied": []any{"shop/tenant"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			l := newLogging(t, decisionlog.Options{DenialsPerSecond: 10, SampleOneIn: 1, Handler: slog.NewJSONHandler(&out, nil)})
			l.written(func() {
				to := l.log.Select("shop", !test.answer.Allowed)
				l.log.Decided(to, &engine.Check{Endpoint: "rls", Request: rules.Request{Domain: "shop"}}, test.answer, test.charged)
			})
			const want = "# HELP weir_decision_log_records_total Decisions in the decision log.\n# TYPE weir_decision_log_records_total counter\nweir_decision_log_records_total 1\n"
			if err := testutil.GatherAndCompare(l.registry, strings.NewReader(want), "weir_decision_log_records_total"); err != nil {
				t.Error(err)
			}
			records := lines(t, &out)
			if len(records) != 1 {
				t.Fatalf("%d records", len(records))
			}
			delete(records[0], "time")
			maps.Copy(test.own, common)
			if diff := cmp.Diff(test.own, records[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Requests that neither the log nor a follower selects cost nothing.
func TestSelect_SelectsWhatIsLoggedOrFollowed(t *testing.T) {
	l := newLogging(t, decisionlog.Options{DenialsPerSecond: 1})
	if first, second := l.log.Select("shop", true), l.log.Select("shop", true); first == 0 || second != 0 || l.log.Select("shop", false) != 0 {
		t.Errorf("without followers: selections %b and %b of denials, %b of other decisions", first, second, l.log.Select("shop", false))
	}
	f, err := l.log.Follow(decisionlog.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.log.Unfollow(f)
	if denial, other := l.log.Select("shop", true), l.log.Select("shop", false); denial == 0 || other != 0 {
		t.Errorf("with a follower: selections %b of denials, %b of other decisions", denial, other)
	}
}
