package httplimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
)

// A program that limits its own requests. A router can use the middleware, which limiter.Handler has too.
func ExampleMiddleware() {
	gate := exampleGate(2)
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "found") })
	limited := httplimit.Middleware(gate)(mux)
	for range 3 {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/search", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit")) //nolint:canonicalheader // as the draft spells it
	}
	// Output:
	// 200 "shop/per-client";r=1;t=60
	// 200 "shop/per-client";r=0;t=60
	// 429 "shop/per-client";r=0;t=60
}

// A program whose requests a limiter decides, by the policies of a cluster or of `weir serve`. In this example no limiter listens:
// requests are served and not counted, and with FailClosed they are refused.
func ExampleNewRemote() {
	remote, err := httplimit.NewRemote("http://127.0.0.1:1", httplimit.Timeout(100*time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer remote.Close()
	quiet := httplimit.Log(slog.New(slog.DiscardHandler))
	for _, gate := range []*httplimit.Gate{
		httplimit.NewGate(remote, "shop", httplimit.MaxDelay(2*time.Second), quiet),
		httplimit.NewGate(remote, "shop", httplimit.FailClosed(), quiet),
	} {
		limited := httplimit.Middleware(gate,
			// Only 10.0.0.0/8 are proxies. All other peers are clients, whatever headers they send.
			httplimit.ClientIP(httplimit.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))),
			// The limiter needs no cookies and no credentials.
			httplimit.OnlyHeaders("X-Tenant-ID", "X-Plan"),
		)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 503
}

// The handler that verifies the token puts the claims into the request's context.
func ExampleClaims() {
	type claimsKey struct{}
	limited := httplimit.Middleware(exampleGate(100),
		httplimit.Claims(func(r *http.Request) map[string]any {
			claims, _ := r.Context().Value(claimsKey{}).(map[string]any)
			return claims
		}),
		httplimit.Describe(func(_ *http.Request, c *httplimit.Check) { fmt.Println(c.Request.Claims) }),
	)(http.NotFoundHandler())

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	verified := context.WithValue(r.Context(), claimsKey{}, map[string]any{"sub": "u1"})
	limited.ServeHTTP(httptest.NewRecorder(), r.WithContext(verified))
	// Output: map[sub:u1]
}

// An upload counts once per megabyte, and at least once.
func ExampleCost() {
	limited := httplimit.Middleware(exampleGate(100),
		httplimit.Cost(func(r *http.Request) int64 { return 1 + max(r.ContentLength, 0)>>20 }),
		httplimit.Describe(func(_ *http.Request, c *httplimit.Check) { fmt.Println(c.Cost) }),
	)(http.NotFoundHandler())

	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.ContentLength = 5 << 20
	limited.ServeHTTP(httptest.NewRecorder(), r)
	// Output: 6
}

// An earlier handler has authenticated the user. The policy counts by identifier: {claim: sub}.
func ExampleKey() {
	type userKey struct{}
	limited := httplimit.Middleware(exampleGate(100),
		httplimit.Key(func(r *http.Request) string { user, _ := r.Context().Value(userKey{}).(string); return user }),
		httplimit.Describe(func(_ *http.Request, c *httplimit.Check) { fmt.Println(c.Request.Claims["sub"]) }),
	)(http.NotFoundHandler())

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	limited.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), userKey{}, "ann")))
	// Output: ann
}

// Probes are not limited.
func ExampleSkip() {
	limited := httplimit.Middleware(exampleGate(2),
		httplimit.Skip(func(r *http.Request) bool { return r.URL.Path == "/healthz" }),
	)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, path := range []string{"/", "/healthz", "/", "/", "/healthz"} {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// / 200
	// /healthz 200
	// / 200
	// / 429
	// /healthz 200
}

// An endpoint that shows clients what remains, and costs nothing.
func ExamplePeek() {
	limits := func(w http.ResponseWriter, r *http.Request) {
		answer, err := httplimit.Peek(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		for _, result := range answer.Results {
			fmt.Println(result.Rule.Policy, result.Remaining, "of", result.Limit)
		}
	}
	limited := httplimit.Middleware(exampleGate(2), httplimit.ChargeLater(),
		httplimit.Skip(func(r *http.Request) bool { return r.URL.Path == "/limits" }))(http.HandlerFunc(limits))
	limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/limits", nil))
	limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/limits", nil))
	// Output:
	// shop/per-client 2 of 2
	// shop/per-client 2 of 2
}

// exampleGate returns the gate of a program with one policy, by the client's address.
func exampleGate(limit int) *httplimit.Gate {
	policies, err := weir.Parse(fmt.Appendf(nil, `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: shop, name: per-client}
spec: {axis: IP, limit: %d, window: 1m, algorithm: SlidingWindowLog}
`, limit))
	if err != nil {
		panic(err)
	}
	limiter, err := weir.NewMemory(policies)
	if err != nil {
		panic(err)
	}
	return limiter.Gate() // a program calls limiter.Close at its end
}
