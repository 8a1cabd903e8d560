package migration

import (
	"net/netip"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/importer/objects"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// request is a request in the namespace shop, and its expected decisions: one letter for each repetition, o is allowed and x is denied.
type request struct {
	rules.Request

	want string
}

// to returns a request to a route, from 192.0.2.1.
func to(route, want string) request {
	return request{rules.Request{
		Domain: "shop", Method: "GET", Host: "shop.example", Path: "/", Headers: map[string]string{}, ClientIP: netip.MustParseAddr("192.0.2.1"),
		Descriptors: []rules.Descriptor{{{Key: "domain", Value: "shop"}, {Key: "target", Value: "HTTPRoute/" + route}, {Key: "gateway", Value: "eg"}}},
	}, want}
}

// inDefault returns a request in the namespace default.
func inDefault(want string) request {
	r := to("a", want)
	r.Domain = "default"
	return r
}

func (r request) path(path string) request {
	r.Path = path
	return r
}

func (r request) from(address string) request {
	r.ClientIP = netip.MustParseAddr(address)
	return r
}

func (r request) header(name, value string) request {
	r.Headers = map[string]string{name: value}
	return r
}

// event returns a write of an Event in the namespace shop.
func event(group, object, want string) request {
	return request{rules.Request{Domain: "shop", Kubernetes: &rules.KubernetesRequest{
		Operation: "CREATE", Group: group, Version: "v1", Resource: "events", Kind: "Event", Namespace: "shop", Name: "e", User: "alice", Object: []byte(object),
	}}, want}
}

// TestObjects_DecideLikeTheirProgram imports objects, enforces the policies, and sends requests. The expected decisions follow from the
// documentation of the program that the objects are for, all within one window.
func TestObjects_DecideLikeTheirProgram(t *testing.T) {
	w := newWeir(t)
	for name, tc := range map[string]struct {
		convert  func([]policyfile.File) *importer.Result
		objects  string
		requests []request
	}{
		"Envoy Gateway: a rule of a route, next to a Gateway's, which it replaces": {
			objects.EnvoyGateway, `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: gateway, namespace: shop}
spec: {targetRefs: [{kind: Gateway, name: eg}], rateLimit: {global: {rules: [{limit: {requests: 1, unit: Hour}, shared: true}]}}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: route, namespace: shop}
spec: {targetRefs: [{kind: HTTPRoute, name: a}, {kind: HTTPRoute, name: b}], rateLimit: {global: {rules: [{limit: {requests: 3, unit: Hour}}]}}}
`,
			[]request{to("a", "ooox"), to("b", "ooox"), to("c", "ooooo")},
		},
		"Envoy Gateway: a shared rule": {
			objects.EnvoyGateway, `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: route, namespace: shop}
spec: {targetRefs: [{kind: HTTPRoute, name: a}, {kind: HTTPRoute, name: b}], rateLimit: {global: {rules: [{limit: {requests: 3, unit: Hour}, shared: true}]}}}
`,
			[]request{to("a", "oo"), to("b", "ox"), to("a", "x")},
		},
		"Envoy Gateway: each address and each user": {
			objects.EnvoyGateway, `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: route, namespace: shop}
spec:
  targetRef: {kind: HTTPRoute, name: a}
  rateLimit:
    global:
      rules:
      - clientSelectors: [{sourceCIDR: {type: Distinct, value: "2001:db8::/32"}}]
        limit: {requests: 1, unit: Hour}
      - clientSelectors: [{headers: [{name: X-User, type: Distinct}]}]
        limit: {requests: 2, unit: Hour}
`,
			[]request{
				to("a", "ox").from("2001:db8::1"), to("a", "ox").from("2001:db8::2"), to("a", "ooo"),
				to("a", "oox").header("x-user", "alice"), to("a", "oox").header("x-user", "bob"),
			},
		},
		"Kuadrant: limits of a route, next to a Gateway's, which they replace": {
			objects.Kuadrant, `
apiVersion: kuadrant.io/v1
kind: RateLimitPolicy
metadata: {name: gateway, namespace: shop}
spec: {targetRef: {kind: Gateway, name: eg}, limits: {all: {rates: [{limit: 1, window: 1h}]}}}
---
apiVersion: kuadrant.io/v1
kind: RateLimitPolicy
metadata: {name: route, namespace: shop}
spec:
  targetRef: {kind: HTTPRoute, name: a}
  limits:
    toys:
      rates: [{limit: 2, window: 1h}]
      when: [{predicate: "request.url_path.startsWith('/toys')"}]
      counters: [{expression: "request.headers['x-user']"}]
`,
			[]request{
				to("a", "oox").path("/toys").header("x-user", "alice"), to("a", "oox").path("/toys/1").header("x-user", "bob"),
				to("a", "ooo").header("x-user", "alice"), to("b", "ooo").path("/toys").header("x-user", "alice"),
			},
		},
		"Kong: by header, and clients without it by address": {
			objects.Kong, `
apiVersion: configuration.konghq.com/v1
kind: KongPlugin
metadata: {name: a, namespace: shop}
plugin: rate-limiting
config: {hour: 2, limit_by: header, header_name: X-Team}
`,
			[]request{to("a", "oox").header("x-team", "red"), to("a", "oox").header("x-team", "blue"), to("a", "oox"), to("a", "oox").from("192.0.2.2")},
		},
		"Kong: by path, and other paths by address": {
			objects.Kong, `
apiVersion: configuration.konghq.com/v1
kind: KongPlugin
metadata: {name: a, namespace: shop}
plugin: rate-limiting
config: {hour: 2, limit_by: path, path: /login/}
`,
			[]request{
				to("a", "oo").path("/login"), to("a", "x").path("/login").from("192.0.2.2"), to("a", "oo"), to("a", "x").path("/other"), to("a", "oox").from("192.0.2.2"),
			},
		},
		"Kong: by address, also in one IPv6 network": {
			objects.Kong, `
apiVersion: configuration.konghq.com/v1
kind: KongPlugin
metadata: {name: a, namespace: shop}
plugin: rate-limiting
config: {hour: 2, limit_by: ip}
`,
			[]request{to("a", "oox").from("2001:db8::1"), to("a", "oox").from("2001:db8::2"), to("a", "oox")},
		},
		"Kong: by service": {
			objects.Kong, `
apiVersion: configuration.konghq.com/v1
kind: KongPlugin
metadata: {name: a, namespace: shop}
plugin: rate-limiting
config: {hour: 2, day: 3, limit_by: service}
`,
			[]request{to("a", "o"), to("a", "o").from("192.0.2.2"), to("a", "x")},
		},
		"Kong: by consumer, on the routes of an Ingress and an HTTPRoute": {
			func(files []policyfile.File) *importer.Result {
				_, source, err := objects.ParseIdentity("consumer=header:X-Consumer")
				if err != nil {
					t.Fatal(err)
				}
				return objects.KongWith(files, map[string]v1alpha1.IdentifierSource{"consumer": source})
			}, `
apiVersion: configuration.konghq.com/v1
kind: KongPlugin
metadata: {name: a, namespace: shop}
plugin: rate-limiting
config: {hour: 2}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a, namespace: shop, annotations: {konghq.com/plugins: a}}
spec: {rules: [{host: shop.example, http: {paths: [{path: /toys, pathType: Prefix}]}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a, namespace: shop, annotations: {konghq.com/plugins: a}}
spec: {hostnames: [other.example], rules: [{matches: [{path: {type: Exact, value: /books}, method: GET}]}]}
`,
			[]request{
				to("a", "oox").path("/toys/1").header("x-consumer", "acme"), to("a", "oox").path("/toys"), to("a", "ooo").path("/books"), to("a", "ooo").path("/toysX"),
			},
		},
		"Kong: decK, a route with methods and a service with two routes": {
			objects.Kong, `
_format_version: "3.0"
services:
- name: shop
  routes:
  - {name: toys, hosts: [shop.example], paths: [/toys], methods: [GET]}
  - {name: books, hosts: [shop.example], paths: [/books]}
plugins:
- {name: rate-limiting, service: shop, config: {hour: 3, limit_by: ip}}
- {name: rate-limiting, route: {name: books}, config: {hour: 1, limit_by: ip}}
`,
			[]request{inDefault("ooox").path("/toys"), inDefault("ox").path("/books").from("192.0.2.2"), inDefault("oooo").path("/games")},
		},
		"Kuadrant: defaults with conditions of the policy and of the limit": {
			objects.Kuadrant, `
apiVersion: kuadrant.io/v1
kind: RateLimitPolicy
metadata: {name: route, namespace: shop}
spec:
  targetRef: {kind: HTTPRoute, name: a}
  defaults:
    strategy: atomic
    when: [{predicate: "request.method == 'GET'"}]
    limits: {toys: {rates: [{limit: 2, window: 1h}], when: [{predicate: "request.path.startsWith('/toys')"}], counters: [{expression: source.remote_address}]}}
`,
			[]request{to("a", "oox").path("/toys"), to("a", "oox").path("/toys").from("192.0.2.2"), to("a", "ooo"), to("b", "ooo").path("/toys")},
		},
		"Traefik: the file provider": {
			objects.Traefik, "http: {middlewares: {a: {rateLimit: {average: 1, period: 1m, burst: 2}}}}", []request{inDefault("oox")},
		},
		"Traefik: by address, also in one IPv6 network": {
			objects.Traefik, `
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: a, namespace: shop}
spec: {rateLimit: {average: 1, period: 1m, burst: 2}}
`,
			[]request{to("a", "oox").from("2001:db8::1"), to("a", "oox").from("2001:db8::2"), to("a", "oox")},
		},
		"Traefik: by host": {
			objects.Traefik, `
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: a, namespace: shop}
spec: {rateLimit: {average: 1, period: 1m, sourceCriterion: {requestHost: true}}}
`,
			[]request{to("a", "o"), to("a", "x").from("192.0.2.2")},
		},
		"EventRateLimit: by source and object, in both API groups": {
			objects.EventRateLimit, `
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits: [{type: SourceAndObject, qps: 1, burst: 2}]
`,
			[]request{
				event("", `{"source":{"component":"kubelet"},"involvedObject":{"kind":"Pod","name":"a"}}`, "oox"),
				event("", `{"source":{"component":"kubelet"},"involvedObject":{"kind":"Pod","name":"b"}}`, "oox"),
				event("", `{"source":{"component":"other"},"involvedObject":{"kind":"Pod","name":"b"}}`, "oox"),
				// The plugin sees the same Event in both groups.
				event("events.k8s.io", `{"deprecatedSource":{"component":"other"},"regarding":{"kind":"Pod","name":"b"}}`, "x"),
				event("events.k8s.io", `{"reportingController":"c","regarding":{"kind":"Pod","name":"a"}}`, "oox"),
				event("events.k8s.io", `{"reportingController":"c","regarding":{"kind":"Pod","name":"b"}}`, "oox"),
				event("events.k8s.io", `{"reportingController":"d","regarding":{"kind":"Pod","name":"b"}}`, "x"),
				event("events.k8s.io", `{"reportingController":"d","regarding":{"kind":"Pod","name":"b","apiVersion":"v1"}}`, "oox"),
			},
		},
		"EventRateLimit: by namespace, user and server": {
			objects.EventRateLimit, `
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits: [{type: Namespace, qps: 1, burst: 3}, {type: User, qps: 1, burst: 2}, {type: Server, qps: 1, burst: 10}]
`,
			[]request{event("", `{}`, "oox"), event("events.k8s.io", `{}`, "x")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.reset()
			w.enforce(t, tc.convert([]policyfile.File{{Name: "objects.yaml", Content: []byte(tc.objects)}}), name+":")
			for i, r := range tc.requests {
				for repetition, want := range r.want {
					answer, err := w.engine.Check(t.Context(), &engine.Check{Request: r.Request, Cost: 1})
					if err != nil {
						t.Fatal(err)
					}
					if answer.Allowed != (want == 'o') {
						t.Errorf("request %d, repetition %d: allowed %t, want %s: %+v", i, repetition, answer.Allowed, r.want, r.Request)
					}
				}
			}
		})
	}
}
