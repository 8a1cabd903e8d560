package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/cmd/weir/monitor"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/test/fixture"
)

func TestRedisCounters_CountCorruptCounters(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // keeps the memory limit of the test
	client, err := flags.OpenRedis(fixture.Redis(t).URL(), flags.RedisTLS{}, limiterTimeout, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	log := &Transcript{}
	counts, err := redisCounters(client, countersOf("weir:"), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counts.close() })
	limit, err := limiter.NewLimit(limiter.TokenBucket, 10, limiter.MinWindow)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Redis().Set(t.Context(), "{corrupt}", "not a counter", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		decisions, err := counts.store.Spend(t.Context(), []limiter.Charge{{Key: "{corrupt}", Limit: limit, Cost: 1}})
		if err != nil || !decisions[0].Allowed {
			t.Fatalf("%+v, %v", decisions, err)
		}
	}
	if got := testutil.ToFloat64(counts.metrics[0]); got != 1 {
		t.Errorf("%v corrupt counters, want 1", got)
	}
	find(t, log, `level=WARN msg="counters in Redis have values that Weir did not write.*key=({corrupt})`)
}

func TestMemoryCounters_KeepWithinMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // keeps the memory limit of the test
	f := countersOf("weir:")
	f.memory = "128Mi"
	counts, err := memoryCounters(f)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := limiter.NewLimit(limiter.FixedWindow, 10, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200_000 {
		if _, err := counts.store.Spend(t.Context(), []limiter.Charge{{Key: fmt.Sprintf("client-%d", i), Limit: limit, Cost: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	held, bytes, evicted := testutil.ToFloat64(counts.metrics[0]), testutil.ToFloat64(counts.metrics[1]), testutil.ToFloat64(counts.metrics[2])
	if held+evicted != 200_000 || evicted == 0 || bytes > 32<<20 || bytes < 31<<20 {
		t.Errorf("%v counters in %v bytes, %v evicted; want 200 000 in all, in a quarter of the memory", held, bytes, evicted)
	}
}

func TestCounterFlags_RejectInvalidValues(t *testing.T) {
	tests := map[string]struct {
		change func(*counterFlags)
		want   string
	}{
		"braces in the prefix": {
			func(f *counterFlags) { f.prefix = "{weir}:" }, `--prefix "{weir}:" is invalid: must not contain { or }, because they would put all keys into one slot`,
		},
		"a brace in the prefix": {func(f *counterFlags) { f.prefix = "}" }, `--prefix "}" is invalid`},
		"a group with a colon":  {func(f *counterFlags) { f.group = "a:b" }, `--counter-group "a:b" is invalid`},
		"a negative bound":      {func(f *counterFlags) { f.maxIdentifiers = -1 }, "--max-identifiers -1 is invalid"},
		"an unknown overflow":   {func(f *counterFlags) { f.overflow = "Drop" }, `--identifier-overflow "Drop" is invalid: must be Shared or Deny`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := countersOf("weir:")
			test.change(&f)
			err := runLimiter(t.Context(), limiterFlags{
				limiter: "weir-system/default", redis: "redis://127.0.0.1:1", counters: f, sockets: anyPort,
			}, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestCounterFlags_ProcessesOfAGroupShareAPrefix(t *testing.T) {
	for _, test := range []struct{ limiter, group, want string }{
		{"weir-system/default", "", "weir:weir-system/default:"},
		{"weir-system/default", "checkout", "weir:@checkout:"},
		{"", "", "weir:"}, // weir serve
		{"", "checkout", "weir:@checkout:"},
	} {
		f := countersOf("weir:")
		f.group = test.group
		if got, err := f.counterPrefix(test.limiter); err != nil || got != test.want {
			t.Errorf("limiter %q, group %q: %q, %v; want %q", test.limiter, test.group, got, err, test.want)
		}
	}
}

// Two Limiters with the same policy on one Redis have separate counters, unless they are in the same group.
func TestLimiter_SharesCountersOnlyWithinItsGroup(t *testing.T) {
	url := fixture.Redis(t).URL()
	client, err := flags.OpenRedis(url, flags.RedisTLS{}, limiterTimeout, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for _, test := range []struct {
		limiter, group string
		want           int
	}{{"shop/a", "", 4}, {"shop/b", "", 4}, {"shop/c", "checkout", 4}, {"pay/d", "checkout", 0}} {
		publishSet(t, controlplane.NewExchange(client, "weir:", test.limiter), tenantSet(4))
		log, f := &Transcript{}, countersOf("weir:")
		f.group = test.group
		launch(t, func(ctx context.Context) error {
			return runLimiter(ctx, limiterFlags{limiter: test.limiter, redis: url, counters: f, sockets: anyPort}, log.Logger())
		})
		base, ops := "http://"+find(t, log, `listen=(\S+)`), "http://"+find(t, log, `ops=(\S+)`)
		fixture.Await(t, test.limiter+" has rules", func() bool {
			status, _ := get(t, ops+"/readyz")
			return status == http.StatusOK
		})
		if passed := spend(t, base); passed != test.want {
			t.Errorf("%s in group %q: %d requests passed, want %d", test.limiter, test.group, passed, test.want)
		}
	}
}

func TestWatchMemory_ObservesTheMemory(t *testing.T) {
	var log Transcript
	server := fixture.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	counters, err := openCounters(serveFlags{redis: server.URL(), counters: counterFlags{timeout: limiterTimeout, memory: "256Mi", replicas: 1, overflow: overflowShared}}, log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer counters.close()
	registry := prometheus.NewRegistry()
	chain := store.New(counters.store, counters.layers, registry)
	e := engine.New(chain, counters.source, engine.NewMetrics(registry), engine.WithLayers(chain))
	set := rules.Set{Rules: []rules.Rule{{
		Policy: "shop/x", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "tenant"},
		Algorithm: limiter.FixedWindow, Units: 10, WindowSeconds: 3600,
	}}}
	index, err := matching.NewIndex(set, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(index)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	watch := monitor.NewMemoryWatch(counters.client, counters.layers.Bound, log.Logger())
	watch.Interval = 5 * time.Millisecond
	go func() {
		watch.Run(ctx)
		close(done)
	}()
	find(t, &log, `level=INFO msg="Redis has no maxmemory, evicts counters, .*bytes=(104857600)`)
	for i := range 10_000 { // 2 MB
		check := engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Method: "GET", Path: "/", Headers: map[string]string{"tenant": strconv.Itoa(i)}}}
		if _, err := e.Check(t.Context(), &check); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"maxmemory-policy": "noeviction", "maxmemory": "1mb"} {
		if _, err := server.Do(t.Context(), "CONFIG", "SET", name, value); err != nil {
			t.Fatal(err)
		}
	}
	find(t, &log, `level=WARN msg="new identifiers of a policy get no counter of their own" policy=(shop/x) reason=OverMemory`)
	stop()
	<-done
	server.Kill()
	watch.Run(ctx) // one reading, which fails: the last one remains
	if is := counters.layers.Bound.Crowded()["shop/x"]; is != limiter.OverMemory {
		t.Errorf("without Redis the policy is %q", is)
	}
}
