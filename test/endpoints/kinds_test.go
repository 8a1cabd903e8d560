package endpoints_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/webhook/throttle"
)

// kindPolicies has a policy for each kind of match, and for each part of match.http. The name begins with the kind.
const kindPolicies = `
kind: RateLimitPolicy
metadata: {name: none-address, namespace: shop}
spec: {axis: IP, limit: 1000, window: 1h}
---
kind: RateLimitPolicy
metadata: {name: none-listed-descriptor, namespace: shop}
spec: {axis: Custom, limit: 1000, window: 1h, identifier: {descriptor: generic_key}}
---
kind: RateLimitPolicy
metadata: {name: none-expression, namespace: shop}
spec: {axis: Custom, limit: 1000, window: 1h, identifier: {expression: 'request.domain'}}
---
kind: RateLimitPolicy
metadata: {name: none-http-header, namespace: shop}
spec: {axis: Tenant, limit: 1000, window: 1h}
---
kind: RateLimitPolicy
metadata: {name: none-http-query, namespace: shop}
spec: {axis: Custom, limit: 1000, window: 1h, identifier: {query: q}}
---
kind: RateLimitPolicy
metadata: {name: none-http-cookie, namespace: shop}
spec: {axis: Custom, limit: 1000, window: 1h, identifier: {cookie: c}}
---
kind: RateLimitPolicy
metadata: {name: none-http-claim, namespace: shop}
spec: {axis: User, limit: 1000, window: 1h, identifier: {claim: sub}}
---
kind: RateLimitPolicy
metadata: {name: none-http-endpoint, namespace: shop}
spec: {axis: Endpoint, limit: 1000, window: 1h}
---
kind: RateLimitPolicy
metadata: {name: none-http-scope, namespace: shop}
spec: {axis: IP, limit: 1000, window: 1h, scope: Endpoint}
---
kind: RateLimitPolicy
metadata: {name: http-prefix, namespace: shop}
spec: {axis: IP, limit: 1000, window: 1h, match: {http: {paths: [{value: /}]}}}
---
kind: RateLimitPolicy
metadata: {name: http-pattern, namespace: shop}
spec: {axis: IP, limit: 1000, window: 1h, match: {http: {paths: [{type: RegularExpression, value: ".*"}]}}}
---
kind: RateLimitPolicy
metadata: {name: http-header, namespace: shop}
spec: {axis: IP, limit: 1000, window: 1h, match: {http: {headers: [{name: x-internal, type: Present, invert: true}]}}}
---
kind: RateLimitPolicy
metadata: {name: http-networks, namespace: shop}
spec: {axis: IP, limit: 1000, window: 1h, match: {http: {cidrs: [203.0.113.0/24]}}}
---
kind: RateLimitPolicy
metadata: {name: http-other-networks, namespace: shop}
spec: {axis: IP, limit: 1000, window: 1h, match: {http: {exceptCIDRs: [10.0.0.0/8]}}}
---
kind: RateLimitPolicy
metadata: {name: http-expression, namespace: shop}
spec: {axis: IP, limit: 1000, window: 1h, match: {http: {expression: 'request.path != "/private"'}}}
---
kind: RateLimitPolicy
metadata: {name: descriptors, namespace: shop}
spec: {axis: Custom, limit: 1000, window: 1h, identifier: {descriptor: generic_key}, match: {descriptors: [{key: generic_key}, {key: remote_address}]}}
---
kind: ClusterRateLimitPolicy
metadata: {name: none-everywhere}
spec: {axis: IP, limit: 1000, window: 1h}
---
kind: ClusterRateLimitPolicy
metadata: {name: http-everywhere}
spec: {axis: IP, limit: 1000, window: 1h, match: {http: {paths: [{value: /}]}}}
---
kind: ClusterRateLimitPolicy
metadata: {name: kubernetes}
spec: {axis: User, limit: 1000, window: 1h, match: {kubernetes: {resources: [{apiGroups: ["*"], resources: ["*/*"]}]}}}
`

// The cells of the table in docs/reference/ratelimitpolicy.md: the kinds of policies that a kind of request is charged to.
const (
	anything    = "none"        // no match, and an identifier that every request can carry
	anyHTTP     = "none-http"   // no match, and an identifier or a scope that only HTTP requests have
	anyListed   = "none-listed" // no match, and an identifier in descriptors
	matchHTTP   = "http"
	descriptors = "descriptors"
	kubernetes  = "kubernetes"
)

func kindOf(policy string) string {
	name := policy[strings.IndexByte(policy, '/')+1:]
	for _, kind := range []string{anyHTTP, anyListed, anything, matchHTTP, descriptors, kubernetes} {
		if strings.HasPrefix(name, kind) {
			return kind
		}
	}
	return name
}

func kindRules(t *testing.T) rules.Set {
	t.Helper()
	dir := t.TempDir()
	text := strings.ReplaceAll(kindPolicies, "\nkind: ", "\napiVersion: weir.dev/v1alpha1\nkind: ")
	if err := os.WriteFile(filepath.Join(dir, "kinds.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(testHashKey()), schema)
	result, err := loader.Load(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range result.Problems {
		t.Fatal(p)
	}
	return result.Rules
}

// requestsOfKinds returns the kinds of requests that callers send.
func requestsOfKinds() map[string]*row {
	client := netip.MustParseAddr("203.0.113.7")
	list := []rules.Descriptor{{{Key: "generic_key", Value: "login"}, {Key: "remote_address", Value: "203.0.113.7"}}}
	request := func() *row {
		return &row{method: "POST", host: "shop.example", target: "/a.B/C", domain: "shop", client: client, cost: 1, grpc: true}
	}
	both := request()
	both.descriptors = list
	return map[string]*row{
		"HTTP":                 request(),
		"HTTP and descriptors": both,
		"descriptors":          {domain: "shop", client: client, cost: 1, descriptors: list},
	}
}

// TestEndpoints_MatchOnlyTheirKindOfRequest sends each kind of request to each endpoint that can express it, and compares the kinds of
// policies that are charged with the table of the reference.
func TestEndpoints_MatchOnlyTheirKindOfRequest(t *testing.T) {
	set := kindRules(t)
	table := map[string][]string{
		"HTTP":                 {anything, anyHTTP, matchHTTP},
		"HTTP and descriptors": {anything, anyHTTP, anyListed, matchHTTP, descriptors},
		"descriptors":          {anything, anyListed, descriptors},
	}
	cells := map[string]int{}
	for _, e := range endpoints() {
		for kind, r := range requestsOfKinds() {
			inProgram := strings.Contains(e.name, "middleware") || strings.Contains(e.name, "grpclimit")
			if e.unsupported(r) != "" || kind == "descriptors" && (e.name == "ext_authz" || inProgram) { // they always have an HTTP request
				continue
			}
			cells[kind]++
			t.Run(e.name+"/"+kind, func(t *testing.T) {
				l := newLimiter(t, set)
				e.open(t, l)(t, r)
				checkKinds(t, set, l.store.take(), table[kind])
			})
		}
	}
	for kind, least := range map[string]int{"HTTP": 9, "HTTP and descriptors": 7, "descriptors": 3} {
		if cells[kind] < least {
			t.Errorf("%d endpoints can express %s, want at least %d", cells[kind], kind, least)
		}
	}
	t.Run("Kubernetes admission", func(t *testing.T) {
		l := newLimiter(t, set)
		settings, err := throttle.NewSettings(throttle.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		throttle.NewHandler(l.engine, settings, throttle.Telemetry{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, throttle.Path+"?timeout=2s", strings.NewReader(
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE","namespace":"shop","name":"a",
			  "kind":{"group":"","version":"v1","kind":"ConfigMap"},"resource":{"group":"","version":"v1","resource":"configmaps"},
			  "userInfo":{"username":"alice"},"object":{}}}`)))
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		checkKinds(t, set, l.store.take(), []string{kubernetes})
	})
}

// checkKinds checks that all policies of the kinds are charged, and no others.
func checkKinds(t *testing.T, set rules.Set, charges []charge, kinds []string) {
	t.Helper()
	for i := range set.Rules {
		policy := set.Rules[i].Policy
		got := slices.ContainsFunc(charges, func(c charge) bool { return strings.Contains(c.Key, "}:"+policy+":") })
		if want := slices.Contains(kinds, kindOf(policy)); got != want {
			t.Errorf("%s is charged: %v, want %v", policy, got, want)
		}
	}
}
