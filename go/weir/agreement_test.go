package weir_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/test/fixture"
)

// agreed are policies whose answers do not depend on the moment of a request.
const agreed = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: shop, name: plans}
spec:
  axis: Tenant
  rates: [{limit: 3, window: 1h, algorithm: FixedWindow}, {limit: 5, window: 1d, algorithm: FixedWindow}]
  tiers:
    - {name: paid, when: {header: {name: X-Plan, value: paid}}, rates: [{limit: 4, window: 1d, algorithm: FixedWindow}]}
    - {name: blocked, when: {identifiers: [mallory]}, limit: 0}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: shop, name: search}
spec:
  axis: IP
  window: 1d
  limit: 7
  algorithm: FixedWindow
  match: {http: {paths: [{value: /search}], methods: [GET], expression: "request.headers['x-debug'] != 'yes'"}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: shop, name: deny}
spec: {axis: Custom, window: 1d, limit: 1, algorithm: FixedWindow, identifier: {header: X-Job, onMissing: Skip}, denial: {status: 403, message: "no"}}
---
apiVersion: weir.dev/v1alpha1
kind: ClusterRateLimitPolicy
metadata: {name: floor}
spec: {axis: Tenant, window: 1d, limit: 100, algorithm: FixedWindow, cost: {expression: "size(request.path)"}}
`

// The same file is the same limits in a program and in weir serve, whichever counters it has.
func TestPolicies_DecideTheSameInProcessAndInWeirServe(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(agreed), 0o600); err != nil {
		t.Fatal(err)
	}
	policies, err := weir.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	long := weir.Timeout(longTimeout)
	memory, err := weir.NewMemory(policies)
	closing(t, memory, err)
	redis, err := weir.NewRedis(fixture.Redis(t).URL(), policies, long)
	closing(t, redis, err)
	remote, err := weir.NewRemote(startServe(t, dir), weir.Domain("shop"), long)
	closing(t, remote, err)

	requests := []map[string]string{}
	for _, tenant := range []string{"acme", "globex", "mallory"} {
		for _, plan := range []string{"", "paid"} {
			for _, path := range []string{"/search", "/search/x", "/"} {
				for _, job := range []string{"", "j1"} {
					requests = append(requests, map[string]string{"X-Tenant-Id": tenant, "X-Plan": plan, "path": path, "X-Job": job, "X-Debug": plan})
				}
			}
		}
	}
	seen := map[int]int{}
	for i, request := range requests {
		want := answerOf(memory, request)
		seen[want.status]++
		for way, other := range map[string]*weir.Limiter{"redis": redis, "weir serve": remote} {
			got, want := answerOf(other, request), want
			if way == "redis" && got.status != http.StatusOK && want.status != http.StatusOK {
				continue // its denial cache knows one of the policies that deny
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("request %d %v: in memory and with %s (-memory +other):\n%s", i, request, way, diff)
			}
		}
	}
	for _, status := range []int{200, 429, 403} {
		if seen[status] == 0 {
			t.Errorf("no request has status %d: %v", status, seen)
		}
	}
}

type answer struct {
	status       int
	policy, body string
}

func answerOf(l *weir.Limiter, request map[string]string) answer {
	r, w := httptest.NewRequest(http.MethodGet, request["path"], nil), httptest.NewRecorder()
	for name, value := range request {
		if name != "path" && value != "" {
			r.Header.Set(name, value)
		}
	}
	l.Handler(ok(), httplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, refusal *httplimit.RefusalError) {
		w.WriteHeader(refusal.Denial().Status)
		fmt.Fprint(w, refusal.Problem.ViolatedPolicies)
	})).ServeHTTP(w, r)
	return answer{w.Code, w.Header().Get("Ratelimit-Policy"), w.Body.String()}
}

// startServe starts weir serve with the policies in dir, and returns the URL of its HTTP API.
func startServe(t *testing.T, dir string) string {
	t.Helper()
	binary, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	listen, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ops, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fixture.Weir(t, binary, "serve", "--policies", dir, "--listen", listen, "--ops-listen", ops, "--grpc-listen=", "--drain=0s")
	if err := fixture.WaitHTTP(t.Context(), "http://"+ops+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	return "http://" + listen
}
