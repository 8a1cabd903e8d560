package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// failures returns the counted failures of both endpoints: check invalid and unavailable, auth invalid and unavailable.
func failures(m *Metrics) string {
	count := func(endpoint, reason string) float64 {
		return testutil.ToFloat64(m.failed.WithLabelValues(endpoint, reason))
	}
	return fmt.Sprint("check ", count("check", "invalid"), count("check", "unavailable"), " auth ", count("auth", "invalid"), count("auth", "unavailable"))
}

func TestFailures_CountRequestsWithoutADecision(t *testing.T) {
	without := engine.New(atNoon(), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry())) // has no rules
	for _, test := range []struct {
		name   string
		engine *engine.Engine
		ask    func(http.Handler) int
		status int
		want   string
	}{
		{"a decision", nil, func(h http.Handler) int { return post(h, acme).Code }, 200, "check 0 0 auth 0 0"},
		{"no JSON", nil, func(h http.Handler) int { return post(h, "{").Code }, 400, "check 1 0 auth 0 0"},
		{"GET", nil, func(h http.Handler) int {
			return call(h, httptest.NewRequest(http.MethodGet, "/v1/check", http.NoBody)).Code
		}, 405, "check 1 0 auth 0 0"},
		{"an invalid parameter", nil, func(h http.Handler) int { return call(h, authRequest("/v1/auth/shop?deny=500", nil)).Code }, 400, "check 0 0 auth 1 0"},
		{"a long domain", nil, func(h http.Handler) int {
			return call(h, authRequest("/v1/auth/"+strings.Repeat("a", 1000), nil)).Code
		}, 400, "check 0 0 auth 1 0"},
		{"no rules at check", without, func(h http.Handler) int { return post(h, acme).Code }, 503, "check 0 1 auth 0 0"},
		{"no rules at auth", without, func(h http.Handler) int { return call(h, forwardedOfAcme()).Code }, 503, "check 0 0 auth 0 1"},
		{"overload", newEngine(t, overloadedStore{}, tenantRule("a", 3)), func(h http.Handler) int { return post(h, acme).Code }, 503, "check 0 0 auth 0 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := test.engine
			if e == nil {
				e = newEngine(t, atNoon(), tenantRule("a", 3))
			}
			m := NewMetrics(prometheus.NewRegistry())
			h := NewHandler(Options{Engine: e, Style: reply.RateLimitHeaders, Metrics: m, Log: discard()})
			if status := test.ask(h); status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			if got := failures(m); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestUnavailable_DoesNotCountWhatIsNoFailure(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	f := m.Failures("check")
	f.Unavailable(fmt.Errorf("spend: %w", limiter.ErrOverloaded))
	f.Unavailable(fmt.Errorf("spend: %w", context.Canceled))
	if got := failures(m); got != "check 0 0 auth 0 0" {
		t.Errorf("%s, want no failure: shed requests are counted elsewhere, and a caller that gave up waits for no decision", got)
	}
	f.Unavailable(context.DeadlineExceeded)
	if got := failures(m); got != "check 0 1 auth 0 0" {
		t.Errorf("%s, want one request without a decision in time", got)
	}
}
