package httplimit_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server"
)

// timeout bounds every wait of the tests.
const timeout = 10 * time.Second

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func rule(name string, units int64, from rules.Identifier) rules.Rule {
	return rules.Rule{
		Policy: "shop/" + name, Domain: "shop", Axis: "Custom", Identifier: from,
		Algorithm: limiter.SlidingWindowLog, Units: units, WindowSeconds: 60,
	}
}

func tenantRule(name string, units int64) rules.Rule {
	r := rule(name, units, rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"})
	r.Axis = "Tenant"
	return r
}

// drip allows 20 requests per second, 50 ms apart; up to burst requests wait.
func drip(burst int64) rules.Rule {
	r := tenantRule("drip", 20)
	r.Algorithm, r.WindowSeconds, r.Burst = limiter.LeakyBucket, 1, burst
	return r
}

func newEngine(t testing.TB, clock func() time.Time, list ...rules.Rule) *engine.Engine {
	t.Helper()
	index, err := matching.NewIndex(rules.Set{Rules: list, HashKey: testHashKey().ID()}, "sha256:1", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(memstore.New(clock), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(index)
	return e
}

// deciders are the ways to let e decide requests.
func deciders() map[string]func(t testing.TB, e *engine.Engine) httplimit.Decider {
	return map[string]func(t testing.TB, e *engine.Engine) httplimit.Decider{
		"in this process": func(_ testing.TB, e *engine.Engine) httplimit.Decider { return e },
		"over HTTP": func(t testing.TB, e *engine.Engine) httplimit.Decider {
			return newRemote(t, serve(t, limiterOf(e)).URL)
		},
	}
}

func limiterOf(e *engine.Engine) http.Handler {
	return server.NewHandler(server.Options{Engine: e, Style: reply.NoHeaders, Metrics: server.NewMetrics(prometheus.NewRegistry()), Log: discard()})
}

func newRemote(t testing.TB, url string, options ...httplimit.RemoteOption) *httplimit.Remote {
	t.Helper()
	// A busy machine must not fail a test. Tests of the timeout set their own.
	remote, err := httplimit.NewRemote(url, append([]httplimit.RemoteOption{httplimit.Timeout(timeout)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remote.Close)
	return remote
}

func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// answering returns a Decider that always returns the same answer.
func answering(a engine.Answer, err error) httplimit.Decider { return decided{a, err} }

type decided struct {
	answer engine.Answer
	err    error
}

func (d decided) Check(context.Context, *engine.Check) (engine.Answer, error) { return d.answer, d.err }

// served is the handler behind the middleware.
func served() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
}

// testHashKey returns the key with which the tests of this package hash secrets.
func testHashKey() *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		panic(err)
	}
	return key
}
