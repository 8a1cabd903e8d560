package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

// An Engine that remembers denials and one that does not live through the same random histories, with a store each on
// the same clock: every answer is the same, but for what a known denial leaves unsaid.
func TestMemoryChangesNoAnswer(t *testing.T) {
	histories, cached := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorlds(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"ask":    w.ask,
			"insist": w.insist,
			"wait":   w.wait,
			"edit":   w.edit,
			"reset":  w.reset,
			"refund": w.refund,
		})
		w.ask(rt)
		w.insist(rt) // few histories are so short that nobody is ever denied
		histories++
		cached += w.cached
	})
	if cached < histories {
		t.Errorf("only %d answers came from memory in %d histories: this has shown little", cached, histories)
	}
}

// worlds are two engines that differ in memory only.
type worlds struct {
	t         *testing.T
	clock     *handClock
	stores    [2]*memstore.Store
	forgetful *engine.Engine // on the first store
	retentive *engine.Engine // on the second
	list      []rules.Rule
	last      *engine.Check
	spent     []limiter.Refund
	hints     []time.Duration // waits that were answered last
	cached    int             // answers from memory
}

func newWorlds(t *testing.T, rt *rapid.T) *worlds {
	w := &worlds{t: t, clock: &handClock{}}
	for i := range w.stores {
		w.stores[i] = memstore.New(w.clock.now)
	}
	w.forgetful = engine.New(w.stores[0], engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	w.retentive = engine.New(w.stores[1], engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()),
		engine.RememberDenials(1000, w.clock.now))
	for i := range rapid.IntRange(1, 3).Draw(rt, "policies") {
		w.list = append(w.list, drawRule(rt, i))
	}
	w.swap()
	return w
}

// swap puts the list in force.
func (w *worlds) swap() {
	x := index(w.t, w.list...)
	w.forgetful.Swap(x)
	w.retentive.Swap(x)
}

// drawRule is a policy on requests that have the header "p0", and so on.
func drawRule(rt *rapid.T, i int) rules.Rule {
	r := rule(fmt.Sprintf("shop/p%d", i), rapid.Int64Range(1, 4).Draw(rt, "units"))
	r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: fmt.Sprintf("p%d", i)}}
	r.Algorithm = rapid.SampledFrom([]limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	}).Draw(rt, "algorithm")
	r.WindowSeconds = rapid.SampledFrom([]int64{1, 7, 60}).Draw(rt, "window")
	if r.Algorithm == limiter.TokenBucket || r.Algorithm == limiter.LeakyBucket {
		r.Burst = rapid.Int64Range(1, 3).Draw(rt, "burst")
	}
	r.Shadow = rapid.IntRange(0, 4).Draw(rt, "shadow") == 4
	return r
}

func (w *worlds) ask(rt *rapid.T) {
	headers := map[string]string{"tenant": rapid.SampledFrom([]string{"", "acme"}).Draw(rt, "tenant")}
	for i := range w.list {
		if i == 0 || rapid.Bool().Draw(rt, "matches") {
			headers[fmt.Sprintf("p%d", i)] = ""
		}
	}
	w.last = ask(rapid.SampledFrom([]int64{1, 1, 1, 2, 5}).Draw(rt, "cost"), headers)
	w.last.Peek = rapid.IntRange(0, 5).Draw(rt, "peek") == 5
	w.compare(rt)
}

// insist asks the same again and again.
func (w *worlds) insist(rt *rapid.T) {
	for range 6 {
		if w.last == nil {
			return
		}
		w.compare(rt)
	}
}

func (w *worlds) compare(rt *rapid.T) {
	want, err := w.forgetful.Check(rt.Context(), w.last)
	if err != nil {
		rt.Fatal(err)
	}
	got, err := w.retentive.Check(rt.Context(), w.last)
	if err != nil {
		rt.Fatal(err)
	}
	w.learn(want)
	same := []cmp.Option{cmp.Comparer(sameRule), cmpopts.IgnoreFields(limiter.Decision{}, "At")}
	if got.Source == engine.SourceCache {
		w.cached++
		if w.last.Peek {
			rt.Fatal("a peek was answered from memory")
		}
		said := map[string]bool{}
		for _, r := range got.Results {
			said[r.Rule.Policy] = true
		}
		want.Source, want.Results = engine.SourceCache, keep(want.Results, said)
	}
	if diff := cmp.Diff(want, got, same...); diff != "" || (len(got.Results) > 0 && got.Source == engine.SourceCache && got.Allowed) {
		rt.Fatalf("at %v, cost %d (-without memory +with memory):\n%s", time.Duration(w.clock.passed.Load()), w.last.Cost, diff)
	}
}

func keep(results []engine.Result, policies map[string]bool) (kept []engine.Result) {
	for _, r := range results {
		if policies[r.Rule.Policy] {
			r.Source = engine.SourceCache
			kept = append(kept, r)
		}
	}
	return kept
}

// learn notes what can be refunded, and the moments worth waiting for.
func (w *worlds) learn(a engine.Answer) {
	w.hints = w.hints[:0]
	keys := map[*rules.Compiled]string{}
	for _, m := range w.forgetful.Index().Match(nil, &w.last.Request) {
		keys[m.Rule] = m.Key(m.Identify(&w.last.Request))
	}
	for _, r := range a.Results {
		w.hints = append(w.hints, r.RetryAfter, r.ResetAfter)
		if a.Allowed && r.Allowed && !w.last.Peek {
			w.spent = append(w.spent, limiter.Refund{Key: keys[r.Rule], Limit: r.Rule.Limit, Cost: w.last.Cost, At: r.At})
		}
	}
}

// wait lets some time pass: a little, up to two windows, or until a moment that was answered, or a microsecond beside it.
func (w *worlds) wait(rt *rapid.T) {
	step := rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, 2*w.list[0].WindowSeconds*1e6)).Draw(rt, "microseconds")
	if len(w.hints) > 0 && rapid.Bool().Draw(rt, "to a moment answered") {
		if hint := rapid.SampledFrom(w.hints).Draw(rt, "moment"); hint != limiter.Never {
			step = max(0, hint.Microseconds()+rapid.Int64Range(-1, 1).Draw(rt, "beside"))
		}
	}
	w.clock.pass(time.Duration(step) * time.Microsecond)
}

// edit changes a policy's limit or enforcement. It lowers no burst: what lies above a lowered one has no exact wait.
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
		if err := store.Reset(rt.Context(), []string{key}); err != nil {
			rt.Fatal(err)
		}
	}
	w.forget(key)
}

// forget tells of a counter that lost units. Time passes, as it does on the way of a notice.
func (w *worlds) forget(key string) {
	w.retentive.Forget(key)
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
