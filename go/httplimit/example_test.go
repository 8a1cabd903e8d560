package httplimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// A program that limits its own requests, with rules in Go and counters in its memory. With redisstore instead of memstore, several
// instances of the program share their counters.
func Example_inProcess() {
	set := rules.Set{Rules: []rules.Rule{{
		Policy: "shop/per-client", Domain: "shop", Axis: "IP", Identifier: rules.Identifier{From: rules.FromClientIP},
		Algorithm: limiter.SlidingWindowLog, Units: 2, WindowSeconds: 60,
		Match: rules.Match{Paths: []rules.PathMatch{{Type: rules.PathPrefix, Value: "/v1"}}},
	}}}
	index, err := matching.NewIndex(set, "1", "weir:")
	if err != nil {
		panic(err)
	}
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(index)

	mux := http.NewServeMux()
	mux.HandleFunc("/v1/search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "found") })
	limited := httplimit.Middleware(httplimit.NewGate(e, "shop"))(mux)

	server := httptest.NewServer(limited)
	defer server.Close()
	for range 3 {
		response, err := http.Get(server.URL + "/v1/search")
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		fmt.Println(response.StatusCode, response.Header.Get("RateLimit")) //nolint:canonicalheader // as the draft spells it
	}
	http.DefaultClient.CloseIdleConnections()
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
	limited := httplimit.Middleware(exampleGate(),
		httplimit.Claims(func(r *http.Request) map[string]any {
			claims, _ := r.Context().Value(claimsKey{}).(map[string]any)
			return claims
		}),
		httplimit.Describe(func(_ *http.Request, c *engine.Check) { fmt.Println(c.Request.Claims) }),
	)(http.NotFoundHandler())

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	verified := context.WithValue(r.Context(), claimsKey{}, map[string]any{"sub": "u1"})
	limited.ServeHTTP(httptest.NewRecorder(), r.WithContext(verified))
	// Output: map[sub:u1]
}

// An upload counts once per megabyte, and at least once.
func ExampleCost() {
	limited := httplimit.Middleware(exampleGate(),
		httplimit.Cost(func(r *http.Request) int64 { return 1 + max(r.ContentLength, 0)>>20 }),
		httplimit.Describe(func(_ *http.Request, c *engine.Check) { fmt.Println(c.Cost) }),
	)(http.NotFoundHandler())

	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.ContentLength = 5 << 20
	limited.ServeHTTP(httptest.NewRecorder(), r)
	// Output: 6
}

// An earlier handler has authenticated the user. The policy counts by identifier: {claim: sub}.
func ExampleKey() {
	type userKey struct{}
	limited := httplimit.Middleware(exampleGate(),
		httplimit.Key(func(r *http.Request) string { user, _ := r.Context().Value(userKey{}).(string); return user }),
		httplimit.Describe(func(_ *http.Request, c *engine.Check) { fmt.Println(c.Request.Claims["sub"]) }),
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
			fmt.Println(result.Rule.Policy, result.Remaining, "of", result.Decision.Limit)
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

// exampleGate has an engine with a rule for each limit, by the client's address. Without rules, it allows every request.
func exampleGate(limits ...int64) *httplimit.Gate {
	var set rules.Set
	for _, units := range limits {
		set.Rules = append(set.Rules, rules.Rule{
			Policy: "shop/per-client", Domain: "shop", Axis: "IP", Identifier: rules.Identifier{From: rules.FromClientIP},
			Algorithm: limiter.SlidingWindowLog, Units: units, WindowSeconds: 60,
		})
	}
	index, err := matching.NewIndex(set, "1", "weir:")
	if err != nil {
		panic(err)
	}
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(index)
	return httplimit.NewGate(e, "shop")
}
