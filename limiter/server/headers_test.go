package server

import (
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// decided is the result of a rule of 60 seconds.
func decided(t *testing.T, rule rules.Rule, d limiter.Decision) engine.Result {
	t.Helper()
	limit, err := rule.Limit()
	if err != nil {
		t.Fatal(err)
	}
	d.Limit = limit.Units()
	return engine.Result{Rule: &rules.Compiled{Rule: rule, Limit: limit}, Identifier: "acme", Decision: d}
}

func TestHeaders(t *testing.T) {
	const just = time.Microsecond
	allowed := limiter.Decision{Allowed: true, Remaining: 7, ResetAfter: 30*time.Second + just}
	denied := limiter.Decision{ResetAfter: 60 * time.Second, RetryAfter: 20*time.Second + just}
	at := func(d limiter.Decision, retry time.Duration) limiter.Decision {
		d.RetryAfter = retry
		return d
	}
	tests := map[string]struct {
		answer engine.Answer
		want   http.Header
	}{
		"no policy, no headers": {engine.Answer{Allowed: true}, http.Header{}},
		"seconds are rounded up": {
			engine.Answer{Allowed: true, Results: []engine.Result{decided(t, tenantRule("a", 9), allowed)}},
			http.Header{
				"RateLimit-Policy": {`"shop/a";q=9;w=60`},
				"RateLimit":        {`"shop/a";r=7;t=31`},
			},
		},
		"all enforced policies in the engine's order, shadow policies never": {
			engine.Answer{Results: []engine.Result{
				decided(t, tenantRule("b", 5), denied), decided(t, tenantRule("a", 9), allowed), decided(t, shadowRule("c", 1), denied),
			}},
			http.Header{
				"RateLimit-Policy": {`"shop/b";q=5;w=60, "shop/a";q=9;w=60`},
				"RateLimit":        {`"shop/b";r=0;t=21, "shop/a";r=7;t=31`},
				"Retry-After":      {"21"},
			},
		},
		"shadow policies alone, no headers": {
			engine.Answer{Allowed: true, Results: []engine.Result{decided(t, shadowRule("c", 1), denied)}}, http.Header{},
		},
		"a wait below a second is a second": {
			engine.Answer{Results: []engine.Result{decided(t, tenantRule("a", 9), at(denied, just))}},
			http.Header{
				"RateLimit-Policy": {`"shop/a";q=9;w=60`},
				"RateLimit":        {`"shop/a";r=0;t=1`},
				"Retry-After":      {"1"},
			},
		},
		"no wait that suffices, no Retry-After": {
			engine.Answer{Results: []engine.Result{decided(t, tenantRule("a", 9), at(denied, limiter.Never))}},
			http.Header{
				"RateLimit-Policy": {`"shop/a";q=9;w=60`},
				"RateLimit":        {`"shop/a";r=0;t=60`},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := http.Header{}
			if err := setHeaders(got, &test.answer); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeadersParseBack(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 3), tenantRule("b", 2)))
	header := post(h, acme).Header()
	for name, want := range map[string][]map[string]any{
		"RateLimit-Policy": {{"name": "shop/b", "q": int64(2), "w": int64(60)}, {"name": "shop/a", "q": int64(3), "w": int64(60)}},
		"RateLimit":        {{"name": "shop/b", "r": int64(1), "t": int64(60)}, {"name": "shop/a", "r": int64(2), "t": int64(60)}},
	} {
		list, err := httpsfv.UnmarshalList(header[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := make([]map[string]any, len(list))
		for i, member := range list {
			item, ok := member.(httpsfv.Item)
			if !ok {
				t.Fatalf("%s: member %d is a %T", name, i, member)
			}
			got[i] = map[string]any{"name": item.Value}
			for _, parameter := range item.Params.Names() {
				got[i][parameter], _ = item.Params.Get(parameter)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestANameThatCannotBeAHeaderDoesNotStopTheDecision(t *testing.T) {
	rule := tenantRule("täglich", 1)
	answer := engine.Answer{Results: []engine.Result{decided(t, rule, limiter.Decision{RetryAfter: time.Second})}}
	header := http.Header{}
	if err := setHeaders(header, &answer); err == nil {
		t.Error("no error for a policy name outside ASCII")
	}
	if diff := cmp.Diff(http.Header{"Retry-After": {"1"}}, header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if w := post(newHandler(t, newEngine(t, atNoon(), rule)), acme); w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
}
