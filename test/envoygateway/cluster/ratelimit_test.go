//go:build envoygatewaycluster

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// run runs a program also when the test has ended.
func run(args ...string) (string, error) {
	out, err := exec.CommandContext(context.Background(), args[0], args[1:]...).CombinedOutput()
	return string(out), err
}

// useRateLimitService makes Weir the rate limit service of Envoy Gateway, once.
func useRateLimitService(t *testing.T) {
	t.Helper()
	if out, err := run("kubectl", "-n", "envoy-gateway-system", "get", "deployment", "envoy-ratelimit"); err == nil {
		t.Logf("the rate limit service exists: %s", out)
		return
	}
	command(t, "", os.Getenv("HELM"), "upgrade", "eg", os.Getenv("CHART"), "--namespace", "envoy-gateway-system", "--reuse-values", "--values", "testdata/values.yaml")
	restart(t, "envoy-gateway-system", "envoy-gateway") // otherwise, the kubelet brings the new configuration within two minutes
	await(t, "Envoy Gateway deploys the rate limit service", func() bool {
		_, err := run("kubectl", "-n", "envoy-gateway-system", "get", "deployment", "envoy-ratelimit")
		return err == nil
	})
	kubectl(t, "-n", "envoy-gateway-system", "rollout", "status", "deployment/envoy-ratelimit", "--timeout=3m")
}

// script sets dynamic metadata from headers of the request.
//
//nolint:dupword // Lua
const script = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata: {name: metadata, namespace: shop}
spec:
  targetRefs: [%s]
  lua:
  - type: Inline
    inline: |
      function envoy_on_request(handle)
        local metadata = handle:streamInfo():dynamicMetadata()
        local cost = handle:headers():get("x-cost")
        if cost ~= nil then metadata:set("weir.test", "cost", tonumber(cost)) end
        local limit = handle:headers():get("x-limit")
        if limit ~= nil then metadata:set("weir.test", "limit", {requests_per_unit = tonumber(limit), unit = "HOUR"}) end
      end
`

// metadataRules are the rules of routes with these names that the standalone mode cannot run, or that need metadata.
func metadataRules() map[string]string {
	return map[string]string{
		"cost":          "{cost: {request: {from: Number, number: 2}}, limit: {requests: 4, unit: Hour}}",
		"usage":         "{cost: {request: {from: Number, number: 0}, response: {from: Number, number: 10}}, limit: {requests: 21, unit: Hour}}",
		"cost-metadata": "{cost: {request: {from: Metadata, metadata: {namespace: weir.test, key: cost}}}, limit: {requests: 6, unit: Hour}}",
		"limit":         "{limit: {requests: 3, unit: Hour, fromMetadata: {namespace: weir.test, key: limit}}}",
	}
}

func TestBackendTrafficPolicy_CostsAndLimitsOfRequests(t *testing.T) {
	useRateLimitService(t)
	var objects, targets []string
	for name, rule := range metadataRules() {
		target := fmt.Sprintf("{group: gateway.networking.k8s.io, kind: HTTPRoute, name: %s}", name)
		targets = append(targets, target)
		objects = append(objects, strings.ReplaceAll(route, "load", name), fmt.Sprintf(`
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: %s, namespace: shop}
spec:
  targetRefs: [%s]
  rateLimit: {type: Global, global: {rules: [%s]}}
`, name, target, rule))
	}
	apply(t, strings.Join(append(objects, fmt.Sprintf(script, strings.Join(targets, ", "))), "---\n"))
	front := forward(t)
	for name := range metadataRules() {
		routed(t, name)
		// A cost of 0 counts nothing, and a rule without one counts in the limit that a test does not use.
		await(t, "Envoy asks about "+name, func() bool {
			return get(t, front+"/"+name, "x-cost=0", "x-limit=1000").Header.Get("X-Ratelimit-Limit") != ""
		})
	}
	for _, c := range []struct{ name, headers, want string }{
		{"cost-metadata", "x-cost=3", "200 200 429"},
		{"limit", "x-limit=2", "200 200 429"},
		{"limit", "x-limit=5", "200 200 200 200 200 429"},
		{"limit", "", "200 200 200 429"},
	} {
		if got := statuses(t, len(strings.Fields(c.want)), front+"/"+c.name, strings.Fields(c.headers)...); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.headers, got, c.want)
		}
	}
	// One request has waited for each of these routes. It has used 2 of 4 units, and 10 of 21.
	if got := statuses(t, 3, front+"/cost"); got != "200 429 429" {
		t.Errorf("cost: %s, want 200 429 429", got)
	}
	for _, want := range []int{200, 200} {
		before := hits(t)
		if got := get(t, front+"/usage").StatusCode; got != want {
			t.Errorf("usage: %d, want %d", got, want)
		}
		await(t, "Envoy reports the usage", func() bool { return hits(t) == before+10 })
	}
	if got := get(t, front+"/usage").StatusCode; got != 429 {
		t.Errorf("usage of 30 of 21 units: %d, want 429", got)
	}
}

// hits returns the units that the rate limit service has counted since its pods started.
func hits(t *testing.T) int {
	t.Helper()
	sum := 0
	for pod := range strings.FieldsSeq(kubectl(t, "-n", "envoy-gateway-system", "get", "pods", "-l", "app.kubernetes.io/name=envoy-ratelimit", "-o=name")) {
		path := "/api/v1/namespaces/envoy-gateway-system/pods/" + strings.TrimPrefix(pod, "pod/") + ":19001/proxy/metrics"
		for _, n := range regexp.MustCompile(`(?m)^ratelimit_service_rate_limit_total_hits\{.*\} (\d+)$`).FindAllStringSubmatch(kubectl(t, "get", "--raw", path), -1) {
			value, err := strconv.Atoi(n[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += value
		}
	}
	return sum
}
