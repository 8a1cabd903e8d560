package engine_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
)

// Two Engines, one with a denial cache and one without, decide the same random histories on two stores with one clock. Every answer is
// the same, apart from the results that a known denial omits.
func TestCheck_DenialCacheChangesNoAnswer(t *testing.T) {
	histories, cached := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorlds(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"check":  w.check,
			"repeat": w.repeat,
			"wait":   w.wait,
			"edit":   w.edit,
			"reset":  w.reset,
			"refund": w.refund,
		})
		w.check(rt)
		w.repeat(rt) // most histories then contain a denial
		histories++
		cached += w.cached
	})
	if cached < histories {
		t.Errorf("only %d answers came from the cache in %d histories: this test has proved little", cached, histories)
	}
}

// worlds are two engines that differ in the denial cache only.
type worlds struct {
	t       *testing.T
	clock   *handClock
	stores  [2]*memstore.Store
	plain   *engine.Engine // on the first store
	caching *engine.Engine // on the second
	chain   *store.Chain
	list    []rules.Rule
	last    *engine.Check
	spent   []limiter.Refund
	hints   []time.Duration // waits in the last answer
	cached  int             // answers from the cache
}

func newWorlds(t *testing.T, rt *rapid.T) *worlds {
	w := &worlds{t: t, clock: &handClock{}}
	for i := range w.stores {
		w.stores[i] = memstore.New(w.clock.now)
	}
	w.plain = engine.New(w.stores[0], engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	w.caching, w.chain = newLayered(w.stores[1], engine.SourceMemory, prometheus.NewRegistry(),
		store.Layers{
			Leases:  lease.New(available{w.stores[1]}, w.clock.now), // no policy has leases
			Denials: denials.NewCache(1000, w.clock.now),
			Bound:   bound.New(bound.Identifiers{Max: 1_000_000}, w.clock.now), // no policy has as many
			Failover: failover.New(&unreliableStore{Store: w.stores[1], unavailable: none, fails: none}, local.New(1<<20, w.clock.now), w.clock.now,
				slog.New(slog.DiscardHandler)),
		}, engine.WithClock(w.clock.now))
	for i := range rapid.IntRange(1, 3).Draw(rt, "policies") {
		w.list = append(w.list, drawRule(rt, i))
	}
	w.swap()
	return w
}

// swap makes the list the active rules of both engines.
func (w *worlds) swap() {
	x := index(w.t, w.list...)
	w.plain.Swap(x)
	w.caching.Swap(x)
}

// drawRule draws a policy for requests with the header "p0", "p1" and so on.
func drawRule(rt *rapid.T, i int) rules.Rule {
	r := rule(fmt.Sprintf("shop/p%d", i), rapid.Int64Range(1, 4).Draw(rt, "units"))
	r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: fmt.Sprintf("p%d", i)}}
	r.Algorithm = rapid.SampledFrom(limiter.Algorithms()).Draw(rt, "algorithm")
	r.WindowSeconds = rapid.SampledFrom([]int64{1, 7, 60}).Draw(rt, "window")
	if r.Algorithm == limiter.TokenBucket || r.Algorithm == limiter.LeakyBucket {
		r.Burst = rapid.Int64Range(1, 3).Draw(rt, "burst")
	}
	r.Shadow = rapid.IntRange(0, 4).Draw(rt, "shadow") == 4
	return r
}

func (w *worlds) check(rt *rapid.T) {
	headers := map[string]string{"tenant": rapid.SampledFrom([]string{"", "acme"}).Draw(rt, "tenant")}
	for i := range w.list {
		if i == 0 || rapid.Bool().Draw(rt, "matches") {
			headers[fmt.Sprintf("p%d", i)] = ""
		}
	}
	w.last = request(rapid.SampledFrom([]int64{1, 1, 1, 2, 5}).Draw(rt, "cost"), headers)
	w.last.Peek = rapid.IntRange(0, 5).Draw(rt, "peek") == 5
	w.compare(rt)
}

// repeat sends the last request again and again.
func (w *worlds) repeat(rt *rapid.T) {
	for range 6 {
		if w.last == nil {
			return
		}
		w.compare(rt)
	}
}

func (w *worlds) compare(rt *rapid.T) {
	want, err := w.plain.Check(rt.Context(), w.last)
	if err != nil {
		rt.Fatal(err)
	}
	got, err := w.caching.Check(rt.Context(), w.last)
	if err != nil {
		rt.Fatal(err)
	}
	w.record(want)
	same := []cmp.Option{cmp.Comparer(sameRule), cmpopts.IgnoreFields(limiter.Decision{}, "At")}
	if got.Source == engine.SourceCache {
		w.cached++
		if w.last.Peek {
			rt.Fatal("a peek was answered from the cache")
		}
		cached := map[string]bool{}
		for _, r := range got.Results {
			cached[r.Rule.Policy] = true
		}
		want.Source, want.Results = engine.SourceCache, keep(want.Results, cached)
	}
	if diff := cmp.Diff(want, got, same...); diff != "" || (len(got.Results) > 0 && got.Source == engine.SourceCache && got.Allowed) {
		rt.Fatalf("at %v, cost %d (-without cache +with cache):\n%s", time.Duration(w.clock.passed.Load()), w.last.Cost, diff)
	}
}

func keep(results []engine.Result, policies map[string]bool) (kept []engine.Result) {
	for _, r := range results {
		if policies[r.Rule.Policy] {
			r.Source, r.Origin = engine.SourceCache, limiter.OriginDenial
			kept = append(kept, r)
		}
	}
	return kept
}

// record records what can be refunded, and the waits in the answer.
func (w *worlds) record(a engine.Answer) {
	w.hints = w.hints[:0]
	keys := map[*matching.Compiled]string{}
	for _, m := range w.plain.Index().Match(nil, &w.last.Request) {
		keys[m.Rule] = m.Key(m.Identify(&w.last.Request))
	}
	for _, r := range a.Results {
		w.hints = append(w.hints, r.RetryAfter, r.ResetAfter)
		if a.Allowed && r.Allowed && !w.last.Peek {
			w.spent = append(w.spent, limiter.Refund{Key: keys[r.Rule], Limit: r.Rule.Limit, Cost: w.last.Cost, At: r.At})
		}
	}
}

// wait moves the clock by a little, by up to two windows, or by a wait in the last answer, give or take a microsecond.
func (w *worlds) wait(rt *rapid.T) {
	step := rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, 2*w.list[0].WindowSeconds*1e6)).Draw(rt, "microseconds")
	if len(w.hints) > 0 && rapid.Bool().Draw(rt, "by a wait in the answer") {
		if hint := rapid.SampledFrom(w.hints).Draw(rt, "wait"); hint != limiter.Never {
			step = max(0, hint.Microseconds()+rapid.Int64Range(-1, 1).Draw(rt, "off by"))
		}
	}
	w.clock.pass(time.Duration(step) * time.Microsecond)
}

// edit changes a policy's limit or enforcement. It lowers no burst: a level above a lowered burst has no exact wait.
func (w *worlds) edit(rt *rapid.T) {
	r := &w.list[rapid.IntRange(0, len(w.list)-1).Draw(rt, "policy")]
	switch rapid.IntRange(0, 2).Draw(rt, "edit") {
	case 0:
		r.Units = rapid.Int64Range(1, 4).Draw(rt, "units")
	case 1:
		r.Shadow = !r.Shadow
	case 2:
		if r.Burst > 0 {
			r.Burst += rapid.Int64Range(0, 2).Draw(rt, "more burst")
		}
	}
	w.swap()
}

func (w *worlds) reset(rt *rapid.T) {
	if len(w.spent) == 0 {
		return
	}
	key := rapid.SampledFrom(w.spent).Draw(rt, "spent").Key
	for _, store := range w.stores {
		if err := store.Reset(rt.Context(), []string{key}, ""); err != nil {
			rt.Fatal(err)
		}
	}
	w.forget(key)
}

// forget reports a counter that lost units. Time passes, as it does while a notice is in flight.
func (w *worlds) forget(key string) {
	w.chain.WasRefunded(key)
	w.clock.pass(time.Microsecond)
}

func (w *worlds) refund(rt *rapid.T) {
	if len(w.spent) == 0 {
		return
	}
	refund := rapid.SampledFrom(w.spent).Draw(rt, "spent")
	refund.Cost = rapid.Int64Range(1, refund.Cost).Draw(rt, "cost")
	for _, store := range w.stores {
		if err := store.Refund(rt.Context(), []limiter.Refund{refund}); err != nil {
			rt.Fatal(err)
		}
	}
	w.forget(refund.Key)
}
