package admin_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/memstore"
)

// endpoint is an admin endpoint with its log.
type endpoint struct {
	http.Handler

	log   bytes.Buffer
	level slog.LevelVar
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{}
	store, bypasses := memstore.New(epoch), bypass.NewList(epoch)
	engine := newEngine(t, store, rule("shop/a"), rule("shop/b"))
	log := slog.New(slog.NewTextHandler(&e.log, &slog.HandlerOptions{Level: &e.level}))
	e.Handler = admin.NewHandler(admin.Options{
		Explainer: &admin.Explainer{Engine: engine}, Level: &e.level, Log: log,
		Counters: &admin.Counters{Engine: engine, Scanner: store, Log: log},
		Bypasses: &admin.Bypasses{Engine: engine, List: bypasses, Clock: epoch, Log: log},
	})
	return e
}

func call(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(admin.WithCaller(t.Context(), "tester"), method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandler_Explains(t *testing.T) {
	e := newEndpoint(t)
	for path, policies := range map[string]int{"/admin/v1/explain": 0, "/admin/v1/explain?all=true": 2} {
		w := call(t, e, http.MethodPost, path, `{"domain":"elsewhere","path":"/"}`)
		var x admin.Explanation
		if err := json.Unmarshal(w.Body.Bytes(), &x); err != nil || w.Code != http.StatusOK || len(x.Policies) != policies {
			t.Errorf("%s: %d %s (%v)", path, w.Code, w.Body, err)
		}
	}
	if w := call(t, e, http.MethodPost, "/admin/v1/explain", `{}`); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"field":"domain"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(t, e, http.MethodPost, "/admin/v1/explain", strings.Repeat(" ", 8<<20+1)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d %s", w.Code, w.Body)
	}
}

func TestHandler_ListsRules(t *testing.T) {
	var set admin.RuleSet
	w := call(t, newEndpoint(t), http.MethodGet, "/admin/v1/rules", "")
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || set.Revision != "sha256:1" || len(set.Rules) != 2 {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	if r := set.Rules[1]; r.Policy != "shop/b" || r.Units != 2 || r.Keys != "weir:throttle:tenant:{*}:shop/b:*" || !strings.HasPrefix(r.Revision, "sha256:") {
		t.Errorf("%+v", r)
	}
}

func TestHandler_ChangesTheLogLevel(t *testing.T) {
	e := newEndpoint(t)
	if w := call(t, e, http.MethodGet, "/admin/v1/log-level", ""); w.Body.String() != "{\"level\":\"INFO\"}\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(t, e, http.MethodPut, "/admin/v1/log-level", `{"level":"debug"}`); w.Code != http.StatusOK || e.level.Level() != slog.LevelDebug {
		t.Errorf("%d %s, level %v", w.Code, w.Body, e.level.Level())
	}
	if !strings.Contains(e.log.String(), `msg="log level changed" from=INFO to=DEBUG caller=tester`) {
		t.Errorf("log: %s", &e.log)
	}
	if w := call(t, e, http.MethodPut, "/admin/v1/log-level", `{"level":"loud"}`); w.Code != http.StatusBadRequest || e.level.Level() != slog.LevelDebug {
		t.Errorf("%d %s, level %v", w.Code, w.Body, e.level.Level())
	}
}

func TestHandler_ServesProfiles(t *testing.T) {
	e := newEndpoint(t)
	for path, want := range map[string]int{
		"/admin/v1/pprof/goroutine": http.StatusOK, "/admin/v1/pprof/nothing": http.StatusNotFound, "/debug/pprof/goroutine": http.StatusNotFound,
	} {
		if w := call(t, e, http.MethodGet, path, ""); w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestAuthenticated_RejectsUnknownCallers(t *testing.T) {
	h := admin.Authenticated(newEndpoint(t))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/admin/v1/rules", http.NoBody))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestWithToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	save := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("a", 32), strings.Repeat("b", 32)
	save(first)
	h := admin.WithToken(file, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(admin.Caller(r.Context()))) }))
	ask := func(header string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/admin/v1/rules", http.NoBody)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for header, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer": http.StatusUnauthorized, "Bearer " + second: http.StatusUnauthorized,
		"Basic " + first: http.StatusUnauthorized, first: http.StatusUnauthorized, "Bearer " + first: http.StatusOK,
	} {
		if status, body := ask(header); status != want {
			t.Errorf("%q: %d %s, want %d", header, status, body, want)
		}
	}
	if _, caller := ask("Bearer " + first); caller != "token "+file {
		t.Errorf("caller %q", caller)
	}
	save(second)
	if status, _ := ask("Bearer " + first); status != http.StatusUnauthorized {
		t.Errorf("the replaced token: %d", status)
	}
	if status, _ := ask("Bearer " + second); status != http.StatusOK {
		t.Errorf("the new token: %d", status)
	}
	save(strings.Repeat("c", 31))
	if status, _ := ask("Bearer " + strings.Repeat("c", 31)); status != http.StatusServiceUnavailable {
		t.Errorf("a short token: %d", status)
	}
}
