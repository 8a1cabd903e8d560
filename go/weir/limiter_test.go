package weir_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

func discard() weir.Option { return weir.Log(slog.New(slog.DiscardHandler)) }

func parse(t testing.TB, text string) *weir.Policies {
	t.Helper()
	policies, err := weir.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

// perTenant returns a policy "a" with spec fields, which each begin with a comma.
func perTenant(namespace, limit, fields string) string {
	return "---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {namespace: " + namespace + ", name: a}\n" +
		"spec: {axis: Tenant, window: 1h, algorithm: FixedWindow, limit: " + limit + fields + "}\n"
}

// statuses returns the statuses of n requests of a tenant.
func statuses(h http.Handler, tenant string, n int) (got []int) {
	for range n {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("X-Tenant-Id", tenant)
		h.ServeHTTP(w, r)
		got = append(got, w.Code)
	}
	return got
}

func served(statuses []int) (n int) {
	for _, status := range statuses {
		if status == http.StatusOK {
			n++
		}
	}
	return n
}

func ok() http.Handler { return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) }

func closing(t testing.TB, l *weir.Limiter, err error) *weir.Limiter {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestLimiters_CountTogetherInRedis(t *testing.T) {
	redis := fixture.Redis(t)
	policies := parse(t, perTenant("shop", "5", ""))
	n := 0
	for range 2 {
		l, err := weir.NewRedis(redis.URL(), policies, weir.Timeout(5*time.Second), discard())
		n += served(statuses(closing(t, l, err).Handler(ok()), "acme", 4))
	}
	if n != 5 {
		t.Errorf("%d requests served of a limit of 5", n)
	}
}

// The way of the documentation is the safe way: without Redis, each policy decides as it sets.
func TestNewRedis_DecidesAsThePoliciesSetWhileRedisIsUnavailable(t *testing.T) {
	for onFailure, want := range map[string]struct{ served, status int }{"Local": {5, 429}, "Allow": {8, 200}, "Deny": {0, 503}} {
		for when, started := range map[string]bool{"from the start": false, "after some time": true} {
			t.Run(onFailure+" "+when, func(t *testing.T) {
				redis := fixture.Redis(t)
				if !started {
					redis.Stop()
				}
				l, err := weir.NewRedis(redis.URL(), parse(t, perTenant("shop", "5", ", onStoreFailure: "+onFailure)), weir.Timeout(time.Second), discard())
				h := closing(t, l, err).Handler(ok())
				if started {
					if got := served(statuses(h, "globex", 8)); got != 5 {
						t.Errorf("%d requests served with Redis", got)
					}
					redis.Stop()
				}
				got := statuses(h, "acme", 8)
				if served(got) != want.served || got[7] != want.status {
					t.Errorf("%v, want %d served and then %d", got, want.served, want.status)
				}
			})
		}
	}
}

func TestCheck_ReturnsAtTheDeadlineOfItsContext(t *testing.T) {
	redis := fixture.Redis(t)
	l, err := weir.NewRedis(redis.URL(), parse(t, perTenant("shop", "5", "")), weir.Timeout(20*time.Second), discard())
	closing(t, l, err)
	check := func() *engine.Check {
		return &engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Headers: map[string]string{"x-tenant-id": "acme"}}}
	}
	if answer, err := l.Check(t.Context(), check()); err != nil || len(answer.Results) != 1 {
		t.Fatalf("%+v, %v", answer, err)
	}
	redis.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := l.Check(ctx, check()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v of a timeout of 20 s and a deadline of 50 ms", took)
	}
	redis.Resume()
	cancel()
	if _, err := l.Check(ctx, check()); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestWatch_FollowsEditsAndKeepsTheRulesOfABrokenOne(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(perTenant("shop", "1", ""))
	policies, err := weir.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	logged := &lockedBuffer{}
	l, err := weir.NewMemory(policies.Watch(), weir.Log(slog.New(slog.NewTextHandler(logged, nil))))
	h := closing(t, l, err).Handler(ok())
	if got := served(statuses(h, "acme", 9)); got != 1 {
		t.Errorf("%d served of a limit of 1", got)
	}
	write(perTenant("shop", "4", "")) // the counter remains
	n := 0
	fixture.Await(t, "the new limit", func() bool {
		n += served(statuses(h, "acme", 1))
		return n == 3
	})
	write("kind: [")
	fixture.Await(t, "the problem in the log", func() bool { return strings.Contains(logged.String(), "a.yaml") })
	if got := statuses(h, "acme", 1); got[0] != 429 {
		t.Errorf("status %d after an invalid edit", got[0])
	}
}

// lockedBuffer is a buffer for a logger of several goroutines.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestNew_NamesWhatIsWrong(t *testing.T) {
	two := perTenant("shop", "1", "") + perTenant("bank", "1", "")
	secret := strings.Replace(perTenant("shop", "1", ""), "Tenant", "APIKey", 1)
	memory := func(text string, options ...weir.Option) func() (*weir.Limiter, error) {
		return func() (*weir.Limiter, error) { return weir.NewMemory(parse(t, text), append(options, discard())...) }
	}
	registry := prometheus.NewRegistry()
	first, err := weir.NewMemory(parse(t, perTenant("shop", "1", "")), weir.Metrics(registry), discard())
	closing(t, first, err)
	for want, open := range map[string]func() (*weir.Limiter, error){
		"the policies are nil":                            func() (*weir.Limiter, error) { return weir.NewMemory(nil) },
		"choose one of bank, shop with the option Domain": memory(two),
		`no policy is in domain "shpo"`:                   memory(two, weir.Domain("shpo")),
		"the option Memory is 5 bytes":                    memory(two, weir.Memory(5)),
		"the option HashKey":                              memory(two, weir.HashKey([]byte("short"))),
		"the option Replicas is 0":                        memory(two, weir.Replicas(0)),
		"the option Log must not be nil":                  func() (*weir.Limiter, error) { return weir.NewMemory(parse(t, two), weir.Log(nil)) },
		"has the metrics of a Limiter already":            memory(two, weir.Domain("shop"), weir.Metrics(registry)),
		"the URL of Redis":                                func() (*weir.Limiter, error) { return weir.NewRedis("http://redis", parse(t, two)) },
		"hashes identifiers, and there is no hash key": func() (*weir.Limiter, error) {
			return weir.NewRedis("redis://127.0.0.1:1", parse(t, secret), discard())
		},
		"so no request would be limited; with Watch": func() (*weir.Limiter, error) {
			policies, err := weir.LoadDir(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return weir.NewMemory(policies)
		},
		"the option Domain is missing": func() (*weir.Limiter, error) { return weir.NewRemote("http://127.0.0.1:1") },
	} {
		if l, err := open(); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Errorf("Close twice: %v", err)
	}
	if _, err := first.Check(t.Context(), &engine.Check{Cost: 1}); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a check after Close: %v", err)
	}
	if got := statuses(first.Handler(ok()), "acme", 1); got[0] != http.StatusServiceUnavailable {
		t.Errorf("status %d after Close", got[0])
	}
	again, err := weir.NewMemory(parse(t, secret), weir.Metrics(registry)) // Close has removed the metrics
	if closing(t, again, err); err == nil {
		if _, err := again.Check(t.Context(), nil); err == nil {
			t.Error("no error for a nil check")
		}
	}
}

func TestClose_DuringCallsIsNoPanic(t *testing.T) {
	redis := fixture.Redis(t)
	l, err := weir.NewRedis(redis.URL(), parse(t, perTenant("shop", "1000000", "")), weir.Timeout(time.Second), discard())
	if err != nil {
		t.Fatal(err)
	}
	h := l.Handler(ok())
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 200 {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				r, w := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), httptest.NewRecorder()
				r.Header.Set("X-Tenant-Id", "acme")
				if h.ServeHTTP(w, r); w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
					t.Errorf("status %d", w.Code)
				}
				cancel()
			}
		})
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	calls.Wait()
}

func TestDefine_ValidatesPoliciesOfPrograms(t *testing.T) {
	policy := func(limit int64, window policyapi.Duration) policyapi.RateLimitPolicy {
		return policyapi.RateLimitPolicy{
			ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "a"},
			Spec: policyapi.RateLimitPolicySpec{
				Axis: policyapi.AxisTenant, Limit: &limit, Window: window,
				Identifier: &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Header: new(policyapi.HeaderName("X-TENANT-Id"))}}, // in any spelling
			},
		}
	}
	policies, err := weir.Define(policy(2, "1h"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.NewMemory(policies)
	h := closing(t, l, err).Handler(ok())
	for _, tenant := range []string{"acme", "globex"} {
		if got := served(statuses(h, tenant, 3)); got != 2 {
			t.Errorf("%d requests of %s served of a limit of 2", got, tenant)
		}
	}
	_, err = weir.Define(policy(-1, "1 hour"))
	problems, ok := errors.AsType[*weir.ProblemsError](err)
	if !ok || len(problems.Problems) != 2 || !strings.Contains(err.Error(), "shop/a: spec.limit") || !strings.Contains(err.Error(), "shop/a: spec.window") {
		t.Errorf("%v", err)
	}
	if _, err := weir.Define(); err == nil {
		t.Error("no error without policies")
	}
}

// A limiter that cannot be reached is no reason to stop the service.
func TestNewRemote_ServesWithoutTheLimiterUnlessItFailsClosed(t *testing.T) {
	for want, options := range map[int][]weir.Option{200: nil, 503: {weir.Gate(httplimit.FailClosed())}} {
		l, err := weir.NewRemote("http://127.0.0.1:1", append(options, weir.Domain("shop"), discard())...)
		if got := statuses(closing(t, l, err).Handler(ok()), "acme", 1); got[0] != want {
			t.Errorf("status %d, want %d", got[0], want)
		}
	}
}

func TestNewMemory_LogsTheWarningsOfLint(t *testing.T) {
	logged := &lockedBuffer{}
	twice := perTenant("shop", "5", "") + strings.Replace(perTenant("shop", "9", ""), "name: a", "name: b", 1)
	l, err := weir.NewMemory(parse(t, twice), weir.Log(slog.New(slog.NewTextHandler(logged, nil))))
	closing(t, l, err)
	if !strings.Contains(logged.String(), "shop/b") {
		t.Errorf("no warning of a policy without effect: %s", logged)
	}
}
