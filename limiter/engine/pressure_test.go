package engine_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/test/fixture"
)

// inDomain returns a new identifier's request.
func inDomain(domain, tenant string) engine.Check {
	c := request(1, map[string]string{"tenant": tenant})
	c.Request.Domain = domain
	return *c
}

func windowRule(policy string) rules.Rule {
	r := rule(policy, 10)
	r.Algorithm = limiter.FixedWindow
	return r
}

// hasOwn reports whether the request is counted under its own identifier.
func hasOwn(t *testing.T, e *engine.Engine, domain, tenant string) bool {
	t.Helper()
	check := inDomain(domain, tenant)
	answer, err := e.Check(context.Background(), &check)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(answer.Results[0].Key, "{"+tenant+"}")
}

func TestObserveMemory_StopsTheFloodOfANamespace(t *testing.T) {
	const most = 10 << 20
	for name, test := range map[string]struct {
		memory limiter.Memory
		stops  bool
		want   limiter.Crowding
	}{
		"room":                           {limiter.Memory{Max: most, Used: 0.69, Rejects: true}, false, ""},
		"nearly":                         {limiter.Memory{Max: most, Used: 0.71, Rejects: true}, false, limiter.NearMemory},
		"full":                           {limiter.Memory{Max: most, Used: 0.85, Rejects: true}, true, limiter.OverMemory},
		"evicts, and counters are few":   {limiter.Memory{Max: 10 * most}, false, ""},
		"evicts, and counters take much": {limiter.Memory{Max: most}, true, limiter.OverMemory},
		"a part evicts":                  {limiter.Memory{Max: 10 * most, Used: 0.85}, true, limiter.OverMemory},
		"unknown":                        {limiter.Memory{}, false, ""},
	} {
		b := newBounded(t, bound.Identifiers{}, windowRule("shop/x"), windowRule("other/x"))
		for i := range 50_000 { // 10 MB
			hasOwn(t, b.Engine, "shop", fmt.Sprint("invented-", i))
		}
		hasOwn(t, b.Engine, "shop", "customer")
		for i := range 100 {
			hasOwn(t, b.Engine, "other", fmt.Sprint("customer-", i))
		}
		b.bound.ObserveMemory(test.memory)
		if got := hasOwn(t, b.Engine, "shop", "new"); got == test.stops {
			t.Errorf("%s: a new identifier of the flood has its own counter: %t", name, got)
		}
		if !hasOwn(t, b.Engine, "shop", "customer") || !hasOwn(t, b.Engine, "other", "new") {
			t.Errorf("%s: a customer with a counter, or of the other namespace, lost its counter", name)
		}
		want := map[string]limiter.Crowding{"shop/x": test.want}
		maps.DeleteFunc(want, func(_ string, c limiter.Crowding) bool { return c == "" })
		if diff := cmp.Diff(want, b.bound.Crowded()); diff != "" {
			t.Errorf("%s: crowded policies (-want +got):\n%s", name, diff)
		}
		b.bound.ObserveMemory(limiter.Memory{Max: most, Used: 0.1, Rejects: true})
		if !hasOwn(t, b.Engine, "shop", "newer") {
			t.Errorf("%s: with free memory, a new identifier has no counter of its own", name)
		}
	}
}

func TestCrowded_ReportsTheMaximumForAMinute(t *testing.T) {
	memory := limiter.Memory{Max: 1 << 40, Rejects: true}
	b := newBounded(t, bound.Identifiers{Max: 1000}, tenantRule(limiter.FixedWindow))
	expect := func(what string, want limiter.Crowding) {
		t.Helper()
		b.bound.ObserveMemory(memory)
		if got := b.bound.Crowded()["shop/tenants"]; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	b.flood(t, 0, 640)
	expect("640 of 1000", "")
	b.flood(t, 640, 896)
	expect("896 of 1000", limiter.NearMaximum)
	b.flood(t, 896, 3000)
	expect("3000 of 1000", limiter.OverMaximum)
	b.now = b.now.Add(2*time.Minute - 1)
	expect("in the window after the flood", limiter.OverMaximum)
	b.now = b.now.Add(59 * time.Second)
	expect("soon after it", limiter.OverMaximum)
	b.now = b.now.Add(time.Minute)
	expect("a minute later", "")
}

func TestCrowded_ReportsABoundedNumberOfPolicies(t *testing.T) {
	var list []rules.Rule
	for i := range 20 {
		list = append(list, windowRule(fmt.Sprintf("n%02d/x", i)))
	}
	b := newBounded(t, bound.Identifiers{Max: 72}, list...)
	for n := range 20 {
		for i := range 64 * (2 - n/19) { // the last one only comes near
			hasOwn(t, b.Engine, fmt.Sprintf("n%02d", n), strconv.Itoa(i))
		}
	}
	b.bound.ObserveMemory(limiter.Memory{})
	got := b.bound.Crowded()
	if _, last := got["n19/x"]; len(got) != limiter.MaxCrowded || last {
		t.Errorf("%d policies, want %d without n19/x", len(got), limiter.MaxCrowded)
	}
	b.Swap(index(t))
	if got := b.bound.Crowded(); len(got) != 0 {
		t.Errorf("policies that do not exist: %v", got)
	}
}

// onRedis is an Engine that observes the memory of a Redis.
type onRedis struct {
	*engine.Engine

	client *redisclient.Client
}

func newOnRedis(tb testing.TB, index *matching.Index, interval time.Duration, args ...string) onRedis {
	tb.Helper()
	client, err := redisclient.Open(fixture.Redis(tb, args...).URL(), timeout)
	if err != nil {
		tb.Fatal(err)
	}
	identifiers := bound.New(bound.Identifiers{}, time.Now)
	e, _ := newLayered(redisstore.NewStore(client, timeout), engine.SourceRedis, prometheus.NewRegistry(),
		store.Layers{Denials: denials.NewCache(1000, time.Now), Bound: identifiers})
	e.Swap(index)
	ctx, cancel := context.WithCancel(context.Background())
	var observing sync.WaitGroup
	observing.Go(func() {
		for ctx.Err() == nil {
			if m, err := client.Memory(ctx); err == nil {
				identifiers.ObserveMemory(m)
			}
			time.Sleep(interval)
		}
	})
	tb.Cleanup(func() {
		cancel()
		observing.Wait()
		client.Close()
	})
	return onRedis{e, client}
}

// flood charges new identifiers until from reaches the number to, in several goroutines. It returns the first error, and counts denials.
func (o *onRedis) flood(domain string, next *atomic.Int64, to int64, denied *atomic.Int64) error {
	const callers, batch = 8, 100
	errs := make(chan error, callers)
	for range callers {
		go func() {
			for {
				from := next.Add(batch) - batch
				if from >= to {
					errs <- nil
					return
				}
				checks := make([]engine.Check, 0, batch)
				for i := from; i < min(from+batch, to); i++ {
					checks = append(checks, inDomain(domain, fmt.Sprint("identifier-", i)))
				}
				answers, err := o.CheckAll(context.Background(), checks)
				if err != nil {
					errs <- err
					return
				}
				for i := range answers {
					if !answers[i].Allowed {
						denied.Add(1)
					}
				}
			}
		}()
	}
	var first error
	for range callers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

func (o *onRedis) used(tb testing.TB) limiter.Memory {
	tb.Helper()
	m, err := o.client.Memory(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// A third of the memory is filled beforehand, so that the flood needs fewer counters.
func TestObserveMemory_AFloodDoesNotFillRedis(t *testing.T) {
	o := newOnRedis(t, index(t, windowRule("flood/x"), windowRule("honest/x")), 50*time.Millisecond, "--maxmemory", "64mb")
	if err := o.client.Redis().SetRange(t.Context(), "ballast", 30<<20, "x").Err(); err != nil {
		t.Fatal(err)
	}
	var next, denied atomic.Int64
	flooded := make(chan error, 1)
	go func() { flooded <- o.flood("flood", &next, 400_000, &denied) }()
	highest := 0.0
	for n := 0; ; n++ {
		if !hasOwn(t, o.Engine, "honest", fmt.Sprint("customer-", n)) {
			t.Fatalf("customer %d of the other namespace has no counter of its own", n)
		}
		highest = max(highest, o.used(t).Used)
		select {
		case err := <-flooded:
			if err != nil {
				t.Fatalf("after %d identifiers: %v", next.Load(), err)
			}
		case <-time.After(time.Millisecond):
			continue
		}
		break
	}
	if denied.Load() == 0 || highest < 0.80 || highest > 0.95 {
		t.Errorf("%d denials and at most %.2f of the memory, want denials and about 0.80", denied.Load(), highest)
	}
	if hasOwn(t, o.Engine, "flood", "after") {
		t.Error("a new identifier of the flood has a counter of its own")
	}
	if err := o.client.Redis().FlushAll(t.Context()).Err(); err != nil { // as if the counters had expired
		t.Fatal(err)
	}
	n := 0
	fixture.Await(t, "own counters after the flood", func() bool { n++; return hasOwn(t, o.Engine, "flood", fmt.Sprint("later-", n)) })
}

// BenchmarkCheckManyIdentifiers makes a compact counter with each operation. With -benchtime 10000000x it measures ten million identifiers of
// one policy.
func BenchmarkCheckManyIdentifiers(b *testing.B) {
	key := limiter.RandomHashKey()
	many := rule("shop/x", 10)
	many.Algorithm, many.Compact, many.WindowSeconds = limiter.SlidingWindowCounter, true, 30*24*3600
	set := rules.Set{Rules: []rules.Rule{many}, HashKey: key.ID()}
	x, err := matching.NewIndex(set, "sha256:many", "weir:", matching.WithHashKey(key))
	if err != nil {
		b.Fatal(err)
	}
	o := newOnRedis(b, x, time.Second, "--maxmemory", "1gb")
	before := o.used(b)
	var next, denied atomic.Int64
	b.ResetTimer()
	if err := o.flood("shop", &next, int64(b.N), &denied); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if denied.Load() > 0 {
		b.Errorf("%d identifiers were denied", denied.Load())
	}
	after := o.used(b)
	b.ReportMetric((after.Used-before.Used)*float64(after.Max)/float64(b.N), "redis-B/op")
}
