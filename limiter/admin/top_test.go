package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/limiter/topk"
)

// entry is the entry of acme.
func entry(policy string, requests, errors int64) topk.Entry {
	return topk.Entry{Policy: policy, Identifier: "acme", Requests: requests, Error: errors}
}

// counting is an admin endpoint of an engine that counts identifiers.
type counting struct {
	http.Handler

	engine    *engine.Engine
	totals    *admin.Totals
	durations *server.Metrics
	broken    atomic.Bool // whether the metrics cannot be read
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	registry, store := prometheus.NewRegistry(), memstore.New(time.Now)
	shadow := rule("shop/shadow")
	shadow.Shadow, shadow.Units = true, 1
	x, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{shadow, rule("shop/tenant")}}, "sha256:1", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := decisionlog.New(decisionlog.Options{Identifiers: decisionlog.Counted}, registry)
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(store, engine.SourceMemory, engine.NewMetrics(registry), engine.CountIdentifiers(), engine.ObserveDecisions(decisions))
	e.Swap(x)
	c := &counting{engine: e, durations: server.NewMetrics(registry)}
	c.totals = admin.NewTotals(e, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		if c.broken.Load() {
			return nil, errors.New("too many open files")
		}
		return registry.Gather()
	}))
	c.Handler = admin.NewHandler(admin.Options{
		Explainer: &admin.Explainer{Engine: e}, Counters: &admin.Counters{Engine: e, Scanner: store}, Totals: c.totals,
		Decisions: decisions, Level: new(slog.LevelVar),
	})
	return c
}

// check decides n requests of an identifier, each in 2 ms.
func (c *counting) check(t *testing.T, n int, identifier string) {
	t.Helper()
	for range n {
		check := &engine.Check{Endpoint: "check", Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"x-tenant-id": identifier}}}
		if _, err := c.engine.Check(t.Context(), check); err != nil {
			t.Fatal(err)
		}
		c.durations.Endpoint("check").Observe(0.002)
	}
}

func (c *counting) top(t *testing.T, query string) (top admin.Top) {
	t.Helper()
	w := call(t, c, http.MethodGet, "/admin/v1/top"+query, "")
	if err := json.Unmarshal(w.Body.Bytes(), &top); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	return top
}

func TestTop_DescribesTheLastPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.totals.Run(ctx)
		c.check(t, 5, "acme") // two pass both policies, and three are denied by both
		time.Sleep(30 * time.Second)
		top := c.top(t, "")
		want := admin.Top{
			Seconds: 30,
			Allowed: topk.List{Identifiers: []topk.Entry{entry("shop/tenant", 2, 0), entry("shop/shadow", 1, 0)}},
			Denied:  topk.List{Identifiers: []topk.Entry{entry("shop/shadow", 4, 0), entry("shop/tenant", 3, 0)}},
			Policies: []admin.PolicyDecisions{
				{Policy: "shop/shadow", Shadow: true, Allowed: 1, Denied: 4}, {Policy: "shop/tenant", Allowed: 2, Denied: 3},
			},
			Sources: []admin.SourceDecisions{{Source: "memory", Decisions: 10}},
		}
		endpoints := top.Endpoints
		top.Endpoints = nil
		if diff := cmp.Diff(want, top); diff != "" {
			t.Error(diff)
		}
		if len(endpoints) != 1 || endpoints[0].Endpoint != "check" || endpoints[0].Decisions != 5 || endpoints[0].P50Ms <= 1 || endpoints[0].P99Ms > 2.5 {
			t.Errorf("%+v", endpoints)
		}
		time.Sleep(90*time.Second + time.Millisecond) // the first period has just left the list
		c.check(t, 1, "beta")
		top = c.top(t, "")
		if top.Seconds < 60 || top.Seconds > 61 || len(top.Allowed.Identifiers) != 2 || len(top.Denied.Identifiers) != 0 ||
			len(top.Policies) != 2 || top.Policies[0].Denied != 0 || top.Policies[0].Allowed != 1 || top.Endpoints[0].Decisions != 1 || top.Sources[0].Decisions != 2 {
			t.Errorf("%+v", top)
		}
		time.Sleep(10 * time.Minute)
		if top = c.top(t, ""); len(top.Policies)+len(top.Sources)+len(top.Endpoints)+len(top.Allowed.Identifiers) > 0 {
			t.Errorf("after ten idle minutes: %+v", top)
		}
	})
}

// In the second minute of a process, the figures include the first one.
func TestTop_InTheSecondMinuteCoversTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.totals.Run(ctx)
		time.Sleep(50 * time.Second)
		c.check(t, 5, "acme")
		time.Sleep(20 * time.Second)
		top := c.top(t, "")
		if top.Seconds != 70 || len(top.Denied.Identifiers) != 2 || len(top.Policies) != 2 || len(top.Endpoints) != 1 || top.Endpoints[0].Decisions != 5 {
			t.Errorf("%+v", top)
		}
	})
}

// If the metrics cannot be read at the end of a minute, what came before is unknown: it must not be in the figures of the minutes after it.
func TestTop_FailsWithoutASampleOfItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.totals.Run(ctx)
		c.check(t, 5, "acme")
		c.broken.Store(true)
		time.Sleep(90 * time.Second)
		synctest.Wait()
		c.broken.Store(false)
		if top := c.top(t, ""); top.Endpoints[0].Decisions != 5 { // since the start of the process
			t.Errorf("%+v", top)
		}
		time.Sleep(45 * time.Second)
		w := call(t, c, http.MethodGet, "/admin/v1/top", "")
		if text := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(text, "too many open files") || !strings.Contains(text, "retry in one minute") {
			t.Errorf("%d %s", w.Code, text)
		}
		time.Sleep(time.Minute)
		c.check(t, 1, "acme")
		if top := c.top(t, ""); top.Endpoints[0].Decisions != 1 {
			t.Errorf("%+v", top)
		}
	})
}

func TestTop_SelectsAPolicy(t *testing.T) {
	c := newCounting(t)
	c.check(t, 3, "acme")
	top := c.top(t, "?policy=shop/tenant&limit=1")
	if len(top.Policies) != 1 || top.Policies[0].Policy != "shop/tenant" || len(top.Denied.Identifiers) != 1 || top.Denied.Identifiers[0].Policy != "shop/tenant" {
		t.Errorf("%+v", top)
	}
	for query, want := range map[string]int{
		"?policy=shop/none": http.StatusNotFound, "?limit=0": http.StatusBadRequest, "?limit=1001": http.StatusBadRequest,
		"?limit=many": http.StatusBadRequest, "?limit=1000": http.StatusOK,
	} {
		if w := call(t, c, http.MethodGet, "/admin/v1/top"+query, ""); w.Code != want {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

func TestTop_NeedsCountedIdentifiers(t *testing.T) {
	e := newEngine(t, memstore.New(epoch), rule("shop/a"))
	if _, err := admin.NewTotals(e, prometheus.NewRegistry()).Top(1, ""); err == nil || !strings.Contains(err.Error(), "does not count identifiers") {
		t.Errorf("%v", err)
	}
}

func TestMergeTops_AddsReplicas(t *testing.T) {
	bucket := func(n int64) []admin.DurationBucket { return []admin.DurationBucket{{0.001, n}, {0.002, 10}} }
	one := admin.Top{
		Seconds: 70, Allowed: topk.List{Identifiers: []topk.Entry{entry("shop/a", 5, 0)}, Unlisted: 1}, Denied: topk.List{},
		Policies:  []admin.PolicyDecisions{{Policy: "shop/a", Allowed: 5, Denied: 1}, {Policy: "shop/b", Shadow: true, Denied: 2}},
		Sources:   []admin.SourceDecisions{{"redis", 6}},
		Endpoints: []admin.EndpointDecisions{{Endpoint: "check", Decisions: 10, P50Ms: 1, Buckets: bucket(5)}},
	}
	two := admin.Top{
		Seconds: 110, Allowed: topk.List{Identifiers: []topk.Entry{entry("shop/a", 7, 1)}}, Denied: topk.List{},
		Policies:  []admin.PolicyDecisions{{Policy: "shop/a", Denied: 4, Uncharged: 1, Unlimited: 2}},
		Sources:   []admin.SourceDecisions{{"cache", 4}, {"redis", 3}},
		Endpoints: []admin.EndpointDecisions{{Endpoint: "check", Decisions: 10, Buckets: bucket(10)}, {Endpoint: "rls", Decisions: 1, Buckets: bucket(10)}},
	}
	merged := admin.MergeTops(10, one, two)
	endpoints := merged.Endpoints
	merged.Endpoints = nil
	want := admin.Top{
		Seconds: 110, Allowed: topk.List{Identifiers: []topk.Entry{entry("shop/a", 12, 1)}, Unlisted: 1},
		Denied: topk.List{Identifiers: []topk.Entry{}},
		Policies: []admin.PolicyDecisions{
			{Policy: "shop/a", Allowed: 5, Denied: 5, Uncharged: 1, Unlimited: 2}, {Policy: "shop/b", Shadow: true, Denied: 2},
		},
		Sources: []admin.SourceDecisions{{"cache", 4}, {"redis", 9}},
	}
	if diff := cmp.Diff(want, merged); diff != "" {
		t.Error(diff)
	}
	first := endpoints[0]
	if len(endpoints) != 2 || first.Decisions != 20 || first.P50Ms < 0.6 || first.P50Ms > 0.7 || first.P90Ms < 1.59 || first.P90Ms > 1.61 {
		t.Errorf("%+v, want quantiles of 15 durations up to 1 ms and 5 up to 2 ms", endpoints)
	}
}
