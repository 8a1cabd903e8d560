//go:build envoygatewaycluster

package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// The numbers of requests of the loads, which last as long as it takes to replace all pods.
const (
	counted = 9000 // without a denial
	limited = 3000 // more than small
	small   = 200  // the limit that each load of a limited path exhausts
	plenty  = 1_000_000
)

const route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: load, namespace: shop}
spec:
  parentRefs: [{name: public}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /load}}]
    backendRefs: [{name: app, port: 80}]
`

// Limiters are replaced twice while Envoy asks them. Clients get 200 and 429 alone, and what has reached the application is what Weir has counted.
func TestExtAuth_CountsWhileLimitersAreReplaced(t *testing.T) {
	apply(t, route+`
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: load, namespace: shop}
spec: {axis: Tenant, limit: 1000000, window: 720h, algorithm: FixedWindow, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: load}]}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: small, namespace: shop}
spec:
  axis: Tenant
  limit: 200
  window: 1h
  algorithm: SlidingWindowLog
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: load}]
  match: {http: {paths: [{type: PathPrefix, value: /load/small}]}}
`)
	routed(t, "load")
	// Envoy waits for each decision and denies a request without one, so that each failure is visible. A decision that Redis does not return in
	// time counts in the limiter, and possibly in Redis as well. Here, time does not matter.
	kubectl(t, "-n", "weir-system", "patch", "limiter", "default", "--type=merge", `--patch={"spec":{"redis":{"timeout":"5s"}}}`)
	kubectl(t, "-n", "weir-system", "rollout", "status", "deployment/weir-limiter-default", "--timeout=3m")
	kubectl(t, "-n", "weir-system", "wait", "--for=condition=Ready", "limiter/default", "--timeout=3m")
	weir(t, "gateway", "attach", "public", "-n", "shop", "--fail-open=false", "--timeout=10s")
	kubectl(t, "-n", "shop", "wait", "--for=condition=Ready", "ratelimitpolicy/load", "ratelimitpolicy/small", "--timeout=1m")
	t.Cleanup(func() { detach(t) })
	front := forward(t)
	await(t, "Envoy asks the limiters", func() bool { return get(t, front+"/load", "x-tenant-id=first").Header.Get("Ratelimit") != "" })

	before := stat(t, "envoy_cluster_upstream_rq_total")
	startLoad(t, "load-counted", "/load", counted)
	startLoad(t, "load-small", "/load/small", limited)
	restart(t, "weir-system", "weir-limiter-default")
	restart(t, "weir-system", "weir-limiter-default")
	all, few := finished(t, "load-counted"), finished(t, "load-small")
	passed := stat(t, "envoy_cluster_upstream_rq_total") - before
	errors := stat(t, "envoy_cluster_ext_authz_error")
	used := usedBy(t, "tenant-0", "shop/load")
	t.Logf("client: %v and %v; Envoy: %d requests passed, %d calls of Weir failed; Weir: %d units counted", all.Answers, few.Answers, passed, errors, used)
	if all.Answers["200 gateway"] != counted || few.Answers["200 gateway"] != small || few.Denied() != limited-small {
		t.Errorf("want %d requests passed without a limit, and %d with the limit %d", counted, small, small)
	}
	if passed != counted+small || used != counted+small || errors != 0 {
		t.Errorf("want %d everywhere, and no failed call", counted+small)
	}
}

func detach(t *testing.T) {
	t.Helper()
	if out, err := run(filepath.Join(os.Getenv("WEIR_BIN"), "kubectl-weir"), "gateway", "detach", "public", "-n", "shop"); err != nil {
		t.Errorf("detach: %v: %s", err, out)
	}
}

// usedBy returns the units that Weir has counted for a tenant under a policy.
func usedBy(t *testing.T, tenant, policy string) int64 {
	t.Helper()
	var answer struct{ Counters []struct{ Used int64 } }
	text := weir(t, "counters", "get", tenant, "--policy", policy, "--limiter", "weir-system/default", "-o", "json")
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Counters) != 1 {
		t.Fatalf("counters of %s: %v, %s", tenant, err, text)
	}
	return answer.Counters[0].Used
}

// The pods of the rate limit service, which are Weir, are replaced twice while Envoy asks them.
func TestRateLimit_CountsWhileItsPodsAreReplaced(t *testing.T) {
	useRateLimitService(t)
	apply(t, route+`
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: load, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: load}]
  rateLimit:
    type: Global
    global:
      rules:
      - clientSelectors: [{headers: [{name: x-tenant-id, type: Distinct}]}]
        limit: {requests: 1000000, unit: Year}
      - clientSelectors: [{path: {type: PathPrefix, value: /load/small}}]
        limit: {requests: 200, unit: Year}
`)
	routed(t, "load")
	front := forward(t)
	remaining := func(tenant string) int {
		n, err := strconv.Atoi(get(t, front+"/load", "x-tenant-id="+tenant).Header.Get("X-Ratelimit-Remaining"))
		if err != nil {
			return -1
		}
		return n
	}
	await(t, "Envoy asks the rate limit service", func() bool { return remaining("first") >= 0 })

	before, failed := stat(t, "envoy_cluster_upstream_rq_total"), stat(t, "envoy_cluster_ratelimit_error")
	startLoad(t, "load-counted", "/load", counted)
	startLoad(t, "load-small", "/load/small", limited)
	restart(t, "envoy-gateway-system", "envoy-ratelimit")
	restart(t, "envoy-gateway-system", "envoy-ratelimit")
	all, few := finished(t, "load-counted"), finished(t, "load-small")
	passed := stat(t, "envoy_cluster_upstream_rq_total") - before
	errors := stat(t, "envoy_cluster_ratelimit_error") - failed
	used := plenty - remaining("tenant-0") - 1 // this request
	t.Logf("client: %v and %v; Envoy: %d requests passed, %d calls of Weir failed; Weir: %d units counted", all.Answers, few.Answers, passed, errors, used)
	if all.Answers["200 gateway"] != counted || few.Answers["200 gateway"] != small || few.Denied() != limited-small {
		t.Errorf("want %d requests passed without a limit, and %d with the limit %d", counted, small, small)
	}
	// As with the original, a request that another rule denies counts as well.
	if passed != counted+small || used != counted+limited || errors != 0 {
		t.Errorf("want %d requests passed, %d counted, and no failed call", counted+small, counted+limited)
	}
}
