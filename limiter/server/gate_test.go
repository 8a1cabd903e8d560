package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/test/fixture"
)

// wantShed fails unless w is a 503 of an overloaded process.
func wantShed(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	const detail = `"detail":"this limiter is overloaded; the request was not counted"`
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), detail) {
		t.Errorf("%d, Retry-After %q, %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
}

// wantShedCount fails unless each endpoint has counted that many shed requests.
func wantShedCount(t *testing.T, registry *prometheus.Registry, check, auth string) {
	t.Helper()
	want := "# HELP weir_shed_total Requests that got no decision because the process was overloaded, by endpoint: check, auth, rls, ext_authz or " +
		"throttle. They were not counted.\n# TYPE weir_shed_total counter\n" +
		`weir_shed_total{endpoint="auth"} ` + auth + "\n" + `weir_shed_total{endpoint="check"} ` + check + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "weir_shed_total"); err != nil {
		t.Error(err)
	}
}

func TestHandler_RejectsRequestsWhileTheProcessIsOverloaded(t *testing.T) {
	gate := overload.NewGate(1, discard())
	for range 200 {
		gate.Enter()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		gate.Run(ctx, func() time.Duration { return time.Second })
	}()
	registry := prometheus.NewRegistry()
	store := memstore.New(func() time.Time { return noon })
	h := NewHandler(Options{
		Engine: newEngine(t, store, tenantRule("a", 3)), Style: reply.RateLimitHeaders, Metrics: NewMetrics(registry), Log: discard(), Gate: gate,
	})
	ask := func() *httptest.ResponseRecorder {
		return post(h, `{"domain":"shop","headers":{"x-tenant-id":"acme"}}`)
	}
	auth := func() *httptest.ResponseRecorder { return call(h, forwardedOfAcme()) }
	fixture.Await(t, "the gate is full", func() bool {
		entered := gate.Enter()
		if entered {
			gate.Leave()
		}
		return !entered
	})
	wantShed(t, ask())
	wantShed(t, auth())
	wantShed(t, auth())
	wantShedCount(t, registry, "1", "2")
	cancel()
	<-ended
	if w := ask(); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"remaining":2`) {
		t.Errorf("after the overload: %d %s, want the first unit spent", w.Code, w.Body)
	}
}

// A caller can send the headers of a request and half of its body.
func TestHandler_AdmitsRequestsWhileBodiesDoNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := overload.NewGate(1, discard())
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { gate.Run(ctx, func() time.Duration { return 0 }) })
		h := NewHandler(Options{
			Engine: newEngine(t, atNoon(), tenantRule("a", 3)), Style: reply.RateLimitHeaders,
			Metrics: NewMetrics(prometheus.NewRegistry()), Log: discard(), Gate: gate,
		})
		body, callers := io.Pipe()
		for range 1024 {
			running.Go(func() {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/check", body))
			})
		}
		synctest.Wait()
		if w := post(h, acme); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d with 1024 requests that have just arrived, want 503", w.Code)
		}
		time.Sleep(200 * time.Millisecond) // two measurements
		for range 2 {
			if w := post(h, acme); w.Code != http.StatusOK {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		_ = callers.Close()
		cancel()
		running.Wait()
	})
}

// overloadedStore makes no calls.
type overloadedStore struct{ limiter.Store }

func (overloadedStore) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, limiter.ErrOverloaded
}

func TestHandler_CountsRequestsThatTheStoreDidNotDecide(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := NewHandler(Options{
		Engine: newEngine(t, overloadedStore{}, tenantRule("a", 3)), Style: reply.RateLimitHeaders, Metrics: NewMetrics(registry), Log: discard(),
	})
	wantShed(t, post(h, `{"domain":"shop","headers":{"x-tenant-id":"acme"}}`))
	wantShed(t, call(h, forwardedOfAcme()))
	wantShedCount(t, registry, "1", "1")
}

// forwardedOfAcme is a call of a proxy for a request of the tenant acme.
func forwardedOfAcme() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/auth/shop", http.NoBody)
	for name, value := range map[string]string{"X-Tenant-Id": "acme", "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/"} {
		r.Header.Set(name, value)
	}
	return r
}
