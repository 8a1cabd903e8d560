// Package agreement has policies, and requests whose answers under them do not depend on the moment of a request. Tests compare the answers of a
// program that decides in process with those of limiters.
package agreement

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
)

// Policies returns the policies, as YAML.
func Policies(domain string) string { return NamespacedPolicies(domain) + clusterWide }

// NamespacedPolicies returns the policies of the domain, without ClusterPolicy.
func NamespacedPolicies(domain string) string {
	return strings.ReplaceAll(namespaced, "DOMAIN", domain)
}

const namespaced = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: DOMAIN, name: plans}
spec:
  axis: Tenant
  rates: [{limit: 3, window: 1h, algorithm: FixedWindow}, {limit: 5, window: 1d, algorithm: FixedWindow}]
  tiers:
    - {name: paid, when: {header: {name: X-Plan, value: paid}}, rates: [{limit: 4, window: 1d, algorithm: FixedWindow}]}
    - {name: blocked, when: {identifiers: [mallory]}, limit: 0}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: DOMAIN, name: search}
spec:
  axis: IP
  window: 1d
  limit: 7
  algorithm: FixedWindow
  match: {http: {paths: [{value: /search}], methods: [GET], expression: "request.headers['x-debug'] != 'yes'"}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: DOMAIN, name: deny}
spec: {axis: Custom, window: 1d, limit: 1, algorithm: FixedWindow, identifier: {header: X-Job, onMissing: Skip}, denial: {status: 403, message: "no"}}
`

// ClusterPolicy is the name of the policy without a namespace.
const ClusterPolicy = "floor"

const clusterWide = `---
apiVersion: weir.dev/v1alpha1
kind: ClusterRateLimitPolicy
metadata: {name: floor}
spec: {axis: Tenant, window: 1d, limit: 100, algorithm: FixedWindow, cost: {expression: "size(request.path)"}}
`

// Requests returns the requests in the order in which they are sent. Each replaces the values of the headers, and "path" that of the path.
func Requests() []map[string]string {
	var all []map[string]string
	for _, tenant := range []string{"acme", "globex", "mallory"} {
		for _, plan := range []string{"", "paid"} {
			for _, path := range []string{"/search", "/search/x", "/"} {
				for _, job := range []string{"", "j1"} {
					all = append(all, map[string]string{"X-Tenant-Id": tenant, "X-Plan": plan, "path": path, "X-Job": job, "X-Debug": plan})
				}
			}
		}
	}
	return all
}

// Statuses are those that the answers to Requests have at least once.
func Statuses() []int { return []int{http.StatusOK, http.StatusTooManyRequests, http.StatusForbidden} }

// Answer is what a client sees.
type Answer struct {
	Status int
	// Policies is the header RateLimit-Policy, with all policies that apply, and Denying the policies that deny.
	Policies, Denying string
}

// AnswerOf sends a request to a handler with the limiter.
func AnswerOf(ctx context.Context, l *weir.Limiter, request map[string]string) Answer {
	r, w := httptest.NewRequestWithContext(ctx, http.MethodGet, request["path"], http.NoBody), httptest.NewRecorder()
	for name, value := range request {
		if name != "path" && value != "" {
			r.Header.Set(name, value)
		}
	}
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	l.Handler(served, httplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, refusal *httplimit.RefusalError) {
		w.WriteHeader(refusal.Denial().Status)
		fmt.Fprint(w, refusal.Problem.ViolatedPolicies)
	})).ServeHTTP(w, r)
	return Answer{w.Code, w.Header().Get("Ratelimit-Policy"), w.Body.String()}
}

// Agree reports whether two limiters that got the same requests gave the same answer. Of a denial by a limiter with a cache of known denials, only
// that it is one can be compared: the cache knows one of the policies that deny.
func Agree(a, b Answer, cached bool) bool {
	return a == b || cached && a.Status != http.StatusOK && b.Status != http.StatusOK
}
