package admin_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestTop_MarksHashesOfAPIKeys(t *testing.T) {
	secret := rule("shop/key")
	secret.Identifier.Secret = true
	key := limiter.RandomHashKey()
	x, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{secret, rule("shop/tenant")}, HashKey: key.ID()}, "sha256:1", "weir:", matching.WithHashKey(key))
	if err != nil {
		t.Fatal(err)
	}
	registry, store := prometheus.NewRegistry(), memstore.New(time.Now)
	e := engine.New(store, engine.SourceMemory, engine.NewMetrics(registry), engine.CountIdentifiers())
	e.Swap(x)
	for range 3 { // the last one is denied
		check := &engine.Check{Endpoint: "check", Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"x-tenant-id": "sk-1"}}}
		if _, err := e.Check(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
	h := admin.NewHandler(admin.Options{Counters: &admin.Counters{Engine: e, Scanner: store}, Totals: admin.NewTotals(e, registry)})
	var top admin.Top
	w := call(t, h, http.MethodGet, "/admin/v1/top", "")
	if err := json.Unmarshal(w.Body.Bytes(), &top); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	top = admin.MergeTops(10, top, top)
	for _, list := range [][]string{{"shop/key", key.Hash("sk-1")}, {"shop/tenant", "sk-1"}} {
		found := false
		for _, e := range top.Allowed.Identifiers {
			found = found || e.Policy == list[0] && e.Identifier == list[1] && e.Hashed == (list[0] == "shop/key")
		}
		if !found {
			t.Errorf("no %q in %+v", list, top.Allowed.Identifiers)
		}
	}
}
