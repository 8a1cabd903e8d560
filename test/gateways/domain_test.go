//go:build gateways

package gateways_test

import (
	"strings"
	"testing"
)

// Some gateways cannot set context extensions. The policies of the page then apply with a default domain, and without one no request is
// denied.
func TestEnvoy_WithoutADomainUsesTheDefault(t *testing.T) {
	const header = "x-tenant-id"
	config := func(t *testing.T, p places) string {
		t.Helper()
		// Without a decision, clients would see 503.
		return replace(t, withoutExtensions(t, p), "failure_mode_allow: true", "failure_mode_allow: false")
	}
	for name, test := range map[string]struct {
		flags []string
		last  string
	}{
		"a default domain":    {[]string{"--grpc-default-domain", "shop"}, "Too Many Requests"},
		"no domain":           {nil, "OK"},
		"a domain of another": {[]string{"--grpc-default-domain", "bank"}, "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, documentedPolicies(t), config, test.flags...)
			if got := w.statuses(t, 30, "/v1/search", header, "acme", "domain", "bank"); got != strings.Repeat("OK, ", 29)+"OK" {
				t.Fatal(got)
			}
			if got := w.statuses(t, 1, "/v1/search", header, "acme", "domain", "bank"); got != test.last {
				t.Errorf("%s, want %s", got, test.last)
			}
			if warned := strings.Count(w.weir.Log(), "have no domain"); (warned == 1) != (test.flags == nil) {
				t.Errorf("%d warnings", warned)
			}
		})
	}
}

// withoutExtensions returns the documented configuration without context extensions.
func withoutExtensions(t *testing.T, p places) string {
	t.Helper()
	text := documentedConfig(t, p)
	begin := strings.Index(text, "              typed_per_filter_config:\n")
	end := strings.Index(text, "              routes:\n")
	if begin < 0 || end < begin {
		t.Fatalf("no context extensions in\n%s", text)
	}
	return text[:begin] + text[end:]
}

// The metadata of the routes is what Envoy Gateway 1.8 writes with includeRouteMetadata. It names the domain and the target.
func TestEnvoy_RouteMetadataNamesTheDomainAndTheTarget(t *testing.T) {
	const policy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: checkout, namespace: shop}
spec: {axis: IP, limit: 2, window: 720h, algorithm: FixedWindow, match: {descriptors: [{key: target, value: HTTPRoute/checkout}]}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: pay, namespace: shop}
spec: {axis: IP, limit: 1, window: 720h, algorithm: FixedWindow, match: {descriptors: [{key: target, value: HTTPRoute/checkout/pay}]}}
`
	route := func(path, namespace, name, section string) string {
		return `- match: {path: ` + path + `}
                metadata: {filter_metadata: {envoy-gateway: {resources: [{kind: HTTPRoute, namespace: ` + namespace + `, name: ` + name + `, sectionName: ` + section + `}]}}}
                route: {cluster: shop}
              `
	}
	config := func(t *testing.T, p places) string {
		t.Helper()
		return replace(t, withoutExtensions(t, p),
			"encode_raw_headers: true", "route_metadata_context_namespaces: [envoy-gateway]",
			"- match: {path: /login}", route("/checkout", "shop", "checkout", `""`)+route("/pay", "shop", "checkout", "pay")+
				route("/bank", "bank", "checkout", `""`)+"- match: {path: /login}")
	}
	w := newWorld(t, policy, config)
	for _, request := range []struct{ path, want string }{
		{"/pay", "OK"},
		{"/pay", "Too Many Requests"},
		{"/checkout", "OK"},
		{"/checkout", "Too Many Requests"},
		{"/checkout?resources=other", "Too Many Requests"},
		{"/bank", "OK"},
		{"/bank", "OK"},
		{"/bank", "OK"},
	} {
		if got := w.statuses(t, 1, request.path, "envoy-gateway", "HTTPRoute/other", "target", "HTTPRoute/other"); got != request.want {
			t.Errorf("%s: %s, want %s", request.path, got, request.want)
		}
	}
}
