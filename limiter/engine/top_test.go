package engine_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/limiter/topk"
)

func countingIdentifiers(tb testing.TB) *engine.Engine {
	tb.Helper()
	e, _ := newLayered(memstore.New(time.Now), engine.SourceMemory, prometheus.NewRegistry(),
		store.Layers{Denials: denials.NewCache(100, time.Now)}, engine.CountIdentifiers())
	return e
}

func expectTop(t *testing.T, what string, got topk.List, want ...topk.Entry) {
	t.Helper()
	if len(got.Identifiers) != len(want) {
		t.Fatalf("%s: %+v, want %+v", what, got.Identifiers, want)
	}
	for i := range want {
		if got.Identifiers[i] != want[i] {
			t.Errorf("%s: %+v, want %+v", what, got.Identifiers[i], want[i])
		}
	}
}

func TestTop_CountsWhatEachPolicyAllowedAndDenied(t *testing.T) {
	e := countingIdentifiers(t)
	if _, counted := e.Top(1, ""); !counted {
		t.Error("does not count")
	}
	shadow := fixed("shop/c", 1)
	shadow.Shadow = true
	e.Swap(index(t, fixed("shop/a", 2), fixed("shop/b", 100), shadow))
	for range 5 { // two pass; shop/b does not count those that shop/a denies
		if _, err := e.Check(t.Context(), request(1, acme())); err != nil {
			t.Fatal(err)
		}
	}
	peek := request(1, acme())
	peek.Peek = true
	if _, err := e.Check(t.Context(), peek); err != nil {
		t.Fatal(err)
	}
	top, _ := e.Top(10, "")
	expectTop(t, "allowed", top.Allowed, topk.Entry{Policy: "shop/a", Identifier: "acme", Requests: 2},
		topk.Entry{Policy: "shop/b", Identifier: "acme", Requests: 2}, topk.Entry{Policy: "shop/c", Identifier: "acme", Requests: 1})
	top, _ = e.Top(10, "shop/a")
	expectTop(t, "denied", top.Denied, topk.Entry{Policy: "shop/a", Identifier: "acme", Requests: 3})
	if _, err := e.CheckAll(t.Context(), []engine.Check{*request(1, acme()), *request(1, map[string]string{"tenant": "beta"})}); err != nil {
		t.Fatal(err)
	}
	top, _ = e.Top(10, "shop/a")
	expectTop(t, "denied in a batch", top.Denied, topk.Entry{Policy: "shop/a", Identifier: "acme", Requests: 4})
	if _, counted := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry())).Top(1, ""); counted {
		t.Error("counts without the option")
	}
}
