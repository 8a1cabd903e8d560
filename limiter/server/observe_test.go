package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/reply"
)

func TestHandler_MeasuresTheDecisionsOfEachEndpoint(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := newHandlerWith(t, newEngine(t, atNoon(), tenantRule("a", 1)), func(o *Options) { o.Metrics = NewMetrics(registry) })
	for range 2 {
		call(h, authRequest("/v1/auth/shop", nil))
	}
	call(h, authRequest("/v1/auth/shop?deny=500", nil)) // without a decision
	post(h, acme)
	_, body := get(NewOpsHandler(registry, NewReadiness(newEngine(t, atNoon()), nil)), "/metrics")
	for _, want := range []string{
		`weir_decision_duration_seconds_count{endpoint="auth"} 2`, `weir_decision_duration_seconds_count{endpoint="check"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}

func TestHandler_LogsARateLimitHeaderThatItCannotWrite(t *testing.T) {
	for name, want := range map[string]int{"daily": 0, "täglich": 1} {
		for _, target := range []string{"/v1/check", "/v1/auth/shop"} {
			var log bytes.Buffer
			h := newHandlerWith(t, newEngine(t, atNoon(), tenantRule(name, 1)), func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			var status int
			if target == "/v1/check" {
				status = post(h, acme).Code
			} else {
				status = call(h, authRequest(target, nil)).Code
			}
			if got := strings.Count(log.String(), "has no rate-limit headers"); got != want || status != http.StatusOK {
				t.Errorf("policy %s at %s: status %d, %d warnings, want %d: %s", name, target, status, got, want, &log)
			}
		}
	}
}

// A request without a delay is answered, even if its caller has just closed the connection.
func TestAuth_AnswersWithoutADelayAfterTheEndOfItsCaller(t *testing.T) {
	h := newHandlerWith(t, newEngine(t, atNoon(), tenantRule("a", 1)), func(*Options) {})
	ended, end := context.WithCancel(t.Context())
	end()
	if recorder := call(h, authRequest("/v1/auth/shop", nil).WithContext(ended)); recorder.Code != http.StatusOK {
		t.Errorf("status %d, want %d", recorder.Code, http.StatusOK)
	}
}

func TestCheckEndpoint_ReusesBuffersOfUpTo16KiB(t *testing.T) {
	e := newEngine(t, atNoon())
	newEndpoint := func() *checkEndpoint {
		return &checkEndpoint{engine: e, style: reply.RateLimitHeaders, log: discard(), seconds: NewMetrics(prometheus.NewRegistry()).Endpoint("check")}
	}
	released := map[string]func(*checkEndpoint){
		"read": func(d *checkEndpoint) {
			if _, bad := d.read(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(acme))); bad != nil {
				t.Fatalf("%+v", bad)
			}
		},
		"write": func(d *checkEndpoint) { d.write(httptest.NewRecorder(), &reply.Answer{Allowed: true}) },
		"16384": func(d *checkEndpoint) { d.release(bytes.NewBuffer(make([]byte, 1, 16384))) },
		"16385": func(d *checkEndpoint) { d.release(bytes.NewBuffer(make([]byte, 1, 16385))) },
	}
	for name, release := range released {
		reused := false
		for range 50 { // a sync.Pool may drop a buffer, and does so under the race detector
			d := newEndpoint()
			release(d)
			if b, ok := d.buffers.Get().(*bytes.Buffer); ok {
				reused = true
				if b.Len() != 0 {
					t.Errorf("%s: a reused buffer has %d bytes", name, b.Len())
				}
			}
		}
		if want := name != "16385"; reused != want {
			t.Errorf("%s: the buffer is reused: %v, want %v", name, reused, want)
		}
	}
}
