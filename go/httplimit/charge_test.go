package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestCharge_TakesDebtsAndReportsWhatHasNoRoom(t *testing.T) {
	for name, test := range map[string]struct {
		debt    bool
		charges []int64
		refused []bool
		then    int // status of the next request
	}{
		"without debts a charge that fits is counted":             {false, []int64{9}, []bool{false}, 429},
		"without debts a charge that does not fit is an error":    {false, []int64{10, 8}, []bool{true, false}, 200},
		"a debt of more than what remains is counted":             {true, []int64{100}, []bool{false}, 429},
		"another debt of a limit that is exceeded is counted too": {true, []int64{100, 100}, []bool{false, false}, 429},
		"nothing and less than nothing are no charge":             {false, []int64{0, -5}, []bool{false, false}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("size", 10, rules.Identifier{From: rules.FromClientIP})
			r.Algorithm, r.Debt, r.WholeDebt = "FixedWindow", test.debt, test.debt
			gate := httplimit.NewGate(newEngine(t, func() time.Time { return noon }, r), "shop")
			var got []error
			h := httplimit.Middleware(gate, httplimit.ChargeLater())(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				for _, n := range test.charges {
					got = append(got, httplimit.Charge(r.Context(), n))
				}
			}))
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			for i, err := range got {
				if _, refused := errors.AsType[*httplimit.RefusalError](err); refused != test.refused[i] {
					t.Errorf("charge %d: %v, want a refusal: %t", i, err, test.refused[i])
				}
			}
			if len(got) != len(test.charges) {
				t.Fatalf("%d charges", len(got))
			}
			test.charges = nil
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != test.then {
				t.Errorf("status %d afterwards, want %d", w.Code, test.then)
			}
		})
	}
}

// A request that costs nothing in advance, and is not decided, is charged for what it used.
func TestCharge_CountsARequestThatWasNotDecided(t *testing.T) {
	r := rule("size", 10, rules.Identifier{From: rules.FromClientIP})
	gate := httplimit.NewGate(newEngine(t, func() time.Time { return noon }, r), "shop")
	free := httplimit.Cost(func(*http.Request) int64 { return 0 })
	var err error
	httplimit.Middleware(gate, httplimit.ChargeLater(), free)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		err = httplimit.Charge(r.Context(), 10)
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	w := httptest.NewRecorder()
	httplimit.Middleware(gate)(served()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if err != nil || w.Code != http.StatusTooManyRequests {
		t.Errorf("charge: %v; status %d afterwards", err, w.Code)
	}
}

// A client that leaves before the end of the response must not get it for free.
func TestCharge_CountsAfterTheClientHasLeft(t *testing.T) {
	for way, decider := range deciders() {
		r := rule("size", 10, rules.Identifier{From: rules.FromClientIP})
		gate := httplimit.NewGate(decider(t, newEngine(t, time.Now, r)), "shop")
		ctx, leave := context.WithCancel(t.Context())
		var err error
		httplimit.Middleware(gate, httplimit.ChargeLater())(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			leave()
			err = httplimit.Charge(r.Context(), 9)
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		w := get(httplimit.Middleware(gate)(served()))
		if err != nil || w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: charge: %v; status %d afterwards, want 429", way, err, w.Code)
		}
	}
}

func TestCharge_ReportsADenialWithoutResults(t *testing.T) {
	gate := httplimit.NewGate(answering(engine.Answer{}, nil), "shop")
	err := httplimit.Charge(gate.Chargeable(t.Context(), &engine.Check{}), 1)
	if _, refused := errors.AsType[*httplimit.RefusalError](err); !refused {
		t.Errorf("%v, want a refusal", err)
	}
}

func TestCharge_NeedsARequestThatCanBeCharged(t *testing.T) {
	if err := httplimit.Charge(t.Context(), 1); !errors.Is(err, httplimit.ErrNotChargeable) {
		t.Errorf("%v", err)
	}
}

func TestHTTP_OnDeniedWritesEveryResponseToARequestThatIsNotServed(t *testing.T) {
	own := httplimit.OnDenied(func(w http.ResponseWriter, r *http.Request, refusal *httplimit.RefusalError) {
		w.Header().Set("X-Request-ID", r.Header.Get("X-Request-ID"))
		w.WriteHeader(refusal.Problem.Status + 10)
		_, _ = w.Write([]byte(w.Header().Get("Ratelimit")))
	})
	denied := newEngine(t, func() time.Time { return noon }, tenantRule("a", 0))
	for name, test := range map[string]struct {
		decider httplimit.Decider
		status  int
		body    string
	}{
		"a denial":    {denied, 439, `"shop/a";r=0`},
		"no decision": {answering(engine.Answer{}, engine.ErrNoRules), 513, ""},
		"a decider that answers without the rule": {answering(engine.Answer{Results: []engine.Result{{}}}, nil), 513, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := httplimit.Middleware(httplimit.NewGate(test.decider, "shop", httplimit.Log(discard())), own)(served())
			r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			r.Header.Set("X-Request-ID", "42")
			r.Header.Set("X-Tenant-Id", "acme")
			h.ServeHTTP(w, r)
			if w.Code != test.status || w.Body.String() != test.body || w.Header().Get("X-Request-ID") != "42" {
				t.Errorf("%d %q %v, want %d %q", w.Code, w.Body, w.Header(), test.status, test.body)
			}
		})
	}
}

// Handlers, tests and other middleware read the headers with Get, which finds only canonical keys: Get("RateLimit") looks for "Ratelimit".
func TestHTTP_SetsHeadersThatGetFinds(t *testing.T) {
	gate := httplimit.NewGate(newEngine(t, func() time.Time { return noon }, tenantRule("a", 5)), "shop")
	var inHandler string
	h := httplimit.Middleware(gate)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { inHandler = w.Header().Get("Ratelimit") }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	const want = `"shop/a";r=4;t=60`
	if got := w.Result().Header.Get("Ratelimit"); got != want || inHandler != want {
		t.Errorf("%q, in the handler %q", got, inHandler)
	}
	if w.Result().Header.Get("Ratelimit-Policy") == "" {
		t.Error("no RateLimit-Policy")
	}
}

// Types of programs are identifiers, and one user's limit is not that of others.
func TestHTTP_CountsClaimsOfNamedTypes(t *testing.T) {
	type userID string
	gate := httplimit.NewGate(newEngine(t, func() time.Time { return noon }, rule("user", 1, rules.Identifier{From: rules.FromClaim, Name: "app.user"})), "shop")
	h := httplimit.Middleware(gate, httplimit.Claims(func(r *http.Request) map[string]any {
		return map[string]any{"app": map[string]userID{"user": userID(r.Header.Get("X-User"))}}
	}))(served())
	for _, step := range []struct {
		user   string
		status int
	}{{"ann", 200}, {"bob", 200}, {"ann", 429}, {"carl", 200}} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("X-User", step.user)
		if h.ServeHTTP(w, r); w.Code != step.status {
			t.Errorf("%s: status %d, want %d", step.user, w.Code, step.status)
		}
	}
}

// A handler that changes the headers of its request, as proxies do, still charges the identifier that was decided.
func TestCharge_IsToTheIdentifierThatWasDecided(t *testing.T) {
	gate := httplimit.NewGate(newEngine(t, func() time.Time { return noon }, tenantRule("a", 3)), "shop")
	h := httplimit.Middleware(gate, httplimit.ChargeLater())(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Tenant-Id", "other")
		if err := httplimit.Charge(r.Context(), 2); err != nil {
			t.Error(err)
		}
	}))
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("X-Tenant-Id", "acme")
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("status %d, want %d", w.Code, want)
		}
	}
}

// What the program's functions see of a request has all of its headers, and is theirs to keep.
func TestMiddleware_FunctionsOfTheProgramSeeAllHeaders(t *testing.T) {
	var seen []*engine.Check
	keep := func(c *engine.Check) { seen = append(seen, c) }
	observe := httplimit.Observe(func(_ context.Context, c *engine.Check, _ engine.Answer, _ error) { keep(c) })
	describe := httplimit.Describe(func(_ *http.Request, c *engine.Check) { keep(c) })
	e := newEngine(t, time.Now, tenantRule("a", 100))
	for name, h := range map[string]http.Handler{
		"Observe":  httplimit.Middleware(httplimit.NewGate(e, "shop", observe))(served()),
		"Describe": httplimit.Middleware(httplimit.NewGate(e, "shop"), describe)(served()),
		"Decider":  httplimit.Middleware(httplimit.NewGate(keeper{keep}, "shop"))(served()),
	} {
		seen = nil
		for _, tenant := range []string{"acme", "globex"} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("X-Tenant-Id", tenant)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		if len(seen) != 2 || seen[0].Request.Headers["x-tenant-id"] != "acme" || seen[1].Request.Headers["x-tenant-id"] != "globex" {
			t.Errorf("%s has seen %+v", name, seen)
		}
	}
}

// keeper is a Decider that keeps the checks.
type keeper struct{ keep func(*engine.Check) }

func (k keeper) Check(_ context.Context, c *engine.Check) (engine.Answer, error) {
	k.keep(c)
	return engine.Answer{Allowed: true}, nil
}
