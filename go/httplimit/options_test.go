package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

func subjectRule(units int64) rules.Rule {
	return rule("user", units, rules.Identifier{From: rules.FromClaim, Name: "sub"})
}

func TestSkip_ServesWithoutADecision(t *testing.T) {
	for name, options := range map[string][]httplimit.HTTPOption{"alone": nil, "with ChargeLater": {httplimit.ChargeLater()}} {
		gate := httplimit.NewGate(newEngine(t, time.Now, tenantRule("a", 1)), "shop")
		skip := httplimit.Skip(func(r *http.Request) bool { return r.URL.Path == "/healthz" })
		h := httplimit.Middleware(gate, append(options, skip)...)(served())
		for _, step := range []struct {
			path   string
			status int
		}{{"/healthz", 200}, {"/healthz", 200}, {"/", 200}, {"/", 429}, {"/healthz", 200}} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, step.path, nil))
			if w.Code != step.status || (w.Header().Get("Ratelimit") == "") != (step.path == "/healthz") {
				t.Errorf("%s: %s: status %d, %v, want %d", name, step.path, w.Code, w.Header(), step.status)
			}
		}
	}
}

// The identifier of the program wins over the claim in a token, and does not change the claims of the program.
func TestKey_IsTheIdentifier(t *testing.T) {
	type userKey struct{}
	claims := map[string]any{"sub": "token", "plan": "paid"}
	for way, decider := range deciders() {
		gate := httplimit.NewGate(decider(t, newEngine(t, time.Now, subjectRule(1))), "shop")
		h := httplimit.Middleware(gate,
			httplimit.Claims(func(*http.Request) map[string]any { return claims }),
			httplimit.Key(func(r *http.Request) string { user, _ := r.Context().Value(userKey{}).(string); return user }))(served())
		for _, step := range []struct {
			user   string
			status int
		}{{"ann", 200}, {"bob", 200}, {"ann", 429}, {"", 200}, {"", 429}, {"bob", 429}} {
			r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			if h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, step.user))); w.Code != step.status {
				t.Errorf("%s: %q: status %d, want %d", way, step.user, w.Code, step.status)
			}
		}
	}
	if claims["sub"] != "token" || len(claims) != 2 {
		t.Errorf("the claims of the program are %v", claims)
	}
}

func TestPeek_CountsNothing(t *testing.T) {
	for way, decider := range deciders() {
		gate := httplimit.NewGate(decider(t, newEngine(t, time.Now, tenantRule("a", 3))), "shop")
		var left []int64
		h := httplimit.Middleware(gate, httplimit.ChargeLater(), httplimit.Skip(func(r *http.Request) bool { return r.URL.Path == "/limits" }))(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				for range 2 {
					answer, err := httplimit.Peek(r.Context())
					if err != nil || len(answer.Results) != 1 {
						t.Fatal(answer, err)
					}
					left = append(left, answer.Results[0].Remaining)
				}
			}))
		for _, path := range []string{"/limits", "/", "/limits", "/"} {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		}
		for i, want := range []int64{3, 3, 2, 2, 2, 2, 1, 1} {
			if i >= len(left) || left[i] != want {
				t.Fatalf("%s: %v remain, want 3 3 2 2 2 2 1 1", way, left)
			}
		}
	}
	if _, err := httplimit.Peek(t.Context()); !errors.Is(err, httplimit.ErrNotChargeable) {
		t.Errorf("error %v of another context", err)
	}
}

// What a program forgets is an error or the default, never a panic.
func TestNil_IsAnErrorOrTheDefault(t *testing.T) {
	e := newEngine(t, time.Now, tenantRule("a", 1))
	gate := httplimit.NewGate(e, "shop", nil, httplimit.Log(nil), httplimit.Observe(nil))
	h := httplimit.Middleware(gate, nil, httplimit.ClientIP(nil), httplimit.Claims(nil), httplimit.Cost(nil), httplimit.Describe(nil), httplimit.OnDenied(nil),
		httplimit.Key(nil), httplimit.Skip(nil))(served())
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != want {
			t.Errorf("status %d, want %d", w.Code, want)
		}
	}
	for name, r := range map[string]*http.Request{"no request": nil, "an empty request": {}} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	var none context.Context
	check := &engine.Check{Cost: 1}
	for name, gate := range map[string]*httplimit.Gate{"a gate": gate, "a gate without a decider": httplimit.NewGate(nil, "shop", httplimit.Log(discard())), "no gate": nil} {
		if w := get(httplimit.Middleware(gate)(served())); name != "a gate" && w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d", name, w.Code)
		}
		for what, err := range map[string]error{"no check": gate.Enter(t.Context(), nil, http.Header{}), "no context": gate.Enter(none, check, http.Header{})} {
			if _, refused := errors.AsType[*httplimit.RefusalError](err); !refused {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	if err := httplimit.NewGate(newEngine(t, time.Now, tenantRule("a", 1)), "shop").Enter(t.Context(), check, nil); err != nil {
		t.Errorf("no header: %v", err)
	}
	remote := newRemote(t, "http://127.0.0.1:1")
	for name, decider := range map[string]httplimit.Decider{"engine": e, "remote": remote} {
		_, noCheck := decider.Check(t.Context(), nil)
		_, noContext := decider.Check(none, check)
		if noCheck == nil || noContext == nil {
			t.Errorf("%s: %v, %v", name, noCheck, noContext)
		}
	}
	_, peeked := httplimit.Peek(none)
	if charged := httplimit.Charge(none, 1); charged == nil || peeked == nil {
		t.Errorf("no context: %v, %v", charged, peeked)
	}
}

func TestMiddleware_WithoutAHandlerServesTheDefaultServeMux(t *testing.T) {
	http.HandleFunc("GET /of-the-default-mux", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	w := httptest.NewRecorder()
	httplimit.Middleware(httplimit.NewGate(newEngine(t, time.Now), "shop"))(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/of-the-default-mux", nil))
	if w.Code != http.StatusTeapot {
		t.Errorf("status %d", w.Code)
	}
}

// A Decider of a program, with the types that it can name.
func TestRule_NamesThePolicyOfADecider(t *testing.T) {
	rule := new(httplimit.Rule)
	rule.Policy = "shop/own"
	answer := httplimit.Answer{Results: []httplimit.Result{{Rule: rule}}}
	w := get(httplimit.Middleware(httplimit.NewGate(answering(answer, nil), "shop"))(served()))
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "shop/own") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// A stub of a test often returns a result without its rule.
func TestGate_AResultWithoutARuleIsAnError(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		gate := httplimit.NewGate(answering(engine.Answer{Allowed: allowed, Results: []engine.Result{{}}}, nil), "shop", httplimit.Log(discard()))
		if w := get(httplimit.Middleware(gate)(served())); w.Code != http.StatusServiceUnavailable {
			t.Errorf("allowed %t: status %d", allowed, w.Code)
		}
		err := gate.Enter(t.Context(), &engine.Check{Cost: 1}, http.Header{})
		if err == nil || err.Error() != "request refused: no decision: the decider has returned a result without Rule; set httplimit.Result.Rule, at least its Policy" {
			t.Errorf("error %v", err)
		}
	}
}
