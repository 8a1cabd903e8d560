package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

func get(h http.Handler, path string) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// origin is a RuleSource whose results the test sets.
type origin struct {
	missing error
	from    string
}

func (o *origin) Ready() error   { return o.missing }
func (o *origin) Origin() string { return o.from }

func TestOpsHandler_IsReadyOnlyWithRulesAndNotWhileDraining(t *testing.T) {
	e := engine.New(atNoon(), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	rules := &origin{missing: errors.New("no rules yet: Redis unreachable")}
	readiness := NewReadiness(e, rules)
	h := NewOpsHandler(prometheus.NewRegistry(), readiness)
	expect := func(when string, wantStatus int, wantBody string) {
		t.Helper()
		if status, body := get(h, "/readyz"); status != wantStatus || body != wantBody {
			t.Errorf("%s: %d %q, want %d %q", when, status, body, wantStatus, wantBody)
		}
		if status, body := get(h, "/healthz"); status != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: /healthz %d %q", when, status, body)
		}
	}
	expect("without rules", http.StatusServiceUnavailable, "no rules yet: Redis unreachable\n")
	rules.missing = nil
	expect("without rules and reason", http.StatusServiceUnavailable, "no rules yet\n")
	e.Swap(newIndex(t, "sha256:1"))
	expect("with rules of unknown origin", http.StatusOK, "ok sha256:1\n")
	rules.from = "snapshot /rules.json.gz"
	expect("with rules from a snapshot", http.StatusOK, "ok sha256:1 from snapshot /rules.json.gz\n")
	rules.missing = errors.New("Redis unreachable")
	expect("with rules and without Redis", http.StatusOK, "ok sha256:1 from snapshot /rules.json.gz\n")
	readiness.drain()
	expect("draining", http.StatusServiceUnavailable, "draining: the limiter is shutting down\n")
}

func TestOpsHandler_ExposesDecisionMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	e := engine.New(atNoon(), engine.SourceMemory, engine.NewMetrics(registry))
	e.Swap(newIndex(t, "sha256:1", tenantRule("a", 1)))
	check := NewHandler(Options{Engine: e, Style: reply.RateLimitHeaders, Metrics: NewMetrics(registry), Log: discard()})
	post(check, acme)
	post(check, acme)
	post(check, "{")

	status, body := get(NewOpsHandler(registry, NewReadiness(e, nil)), "/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	for _, want := range []string{
		`weir_decisions_total{axis="Tenant",policy="shop/a",result="allowed",source="memory",tier=""} 1`,
		`weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="memory",tier=""} 1`,
		`weir_decision_duration_seconds_count{endpoint="check"} 2`,
		`weir_rules_revision_info{revision="sha256:1"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}
