package objects_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/importer/objects"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// imported returns the policies and the findings for a file.
func imported(t *testing.T, convert func([]policyfile.File) *importer.Result, content string) (policies string, findings []string) {
	t.Helper()
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	result := convert([]policyfile.File{{Name: "a.yaml", Content: []byte(content)}})
	outputs, err := result.Finish(policyfile.NewLoader(compile.DefaultIdentity(), schema))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, o := range outputs {
		text.Write(o.Content)
	}
	for _, f := range result.Findings {
		findings = append(findings, f.String())
	}
	return text.String(), findings
}

const kuadrantWithIdentity = `apiVersion: kuadrant.io/v1
kind: RateLimitPolicy
metadata: {name: toys, namespace: shop}
spec:
  targetRef: {kind: HTTPRoute, name: toys}
  limits:
    users:
      rates: [{limit: 5, window: 10s}]
      when:
      - predicate: auth.identity.group != "admin"
      counters: [{expression: auth.identity.userid}]
`

func TestKuadrant_MapsAttributes(t *testing.T) {
	for mapped, want := range map[string][]string{
		"auth.identity.userid=header:X-User-ID auth.identity.group=claim:realm.group": {`request.headers[?"x-user-id"].orValue("")`, `request.claims.realm.group != "admin"`},
		"auth.identity=claims auth.identity.userid=header:x-user":                     {`request.headers[?"x-user"].orValue("")`, `(request.claims.group != "admin")`}, // the longest
		"auth.identity=claims": {"string(request.claims.userid)", `(request.claims.group != "admin")`},
		"auth.identity.userid=query:user auth.identity.group=header:x-group": {`request.query[?"user"].orValue([""])[0]`, `request.headers[?"x-group"].orValue("") != "admin"`},
	} {
		attributes := map[string]string{}
		for text := range strings.FieldsSeq(mapped) {
			name, expression, err := objects.ParseAttribute(text)
			if err != nil {
				t.Fatal(err)
			}
			attributes[name] = expression
		}
		policies, findings := imported(t, func(files []policyfile.File) *importer.Result { return objects.KuadrantWith(files, attributes) }, kuadrantWithIdentity)
		joined := strings.Join(strings.Fields(policies), " ")
		for _, expression := range want {
			if !strings.Contains(strings.ReplaceAll(joined, "''", "'"), expression) {
				t.Errorf("%s: without %s:\n%s", mapped, expression, policies)
			}
		}
		if len(findings) != 1 || !strings.Contains(findings[0], "difference: windows begin") {
			t.Errorf("%s: %v", mapped, findings)
		}
	}
	_, findings := imported(t, func(files []policyfile.File) *importer.Result {
		return objects.KuadrantWith(files, map[string]string{"auth.identity.userid": "a", "auth.unused": "b"})
	}, kuadrantWithIdentity)
	want := []string{
		"a.yaml:1: note: no condition or counter has the attribute auth.unused of --map",
		"a.yaml:10: not imported: predicate: auth.identity.group is not an attribute of requests to Weir; if a header or claim has its value, use for example --map auth.identity.group=header:x-user-id",
	}
	if diff := cmp.Diff(want, findings); diff != "" {
		t.Error(diff)
	}
	withMethod := strings.Replace(kuadrantWithIdentity, `auth.identity.group != "admin"`, `auth.identity.groups.split(",").exists(g, g.startsWith("a"))`, 1)
	_, findings = imported(t, objects.Kuadrant, withMethod)
	if want := "--map auth.identity.groups=header:x-user-id"; len(findings) != 2 || !strings.HasSuffix(findings[0], want) {
		t.Errorf("a method of an attribute: %v", findings)
	}
	for _, text := range []string{"userid=header:a", "auth.a=", "auth.a=header:", "auth.a=cookie:b", "auth.a=claim:a-b", "auth.a"} {
		if _, _, err := objects.ParseAttribute(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func kongWith(config, rest string) string {
	return "apiVersion: configuration.konghq.com/v1\nkind: KongPlugin\nmetadata: {name: limit, namespace: shop}\nplugin: rate-limiting\nconfig: {" + config + "}\n---\n" + rest
}

// Fields of the Redis of older versions are no reason not to import a plugin, and hide no reason.
func TestKong_ReportsTheBlockerNextToOtherFields(t *testing.T) {
	policies, findings := imported(t, objects.Kong, kongWith("minute: 5, limit_by: ip, policy: redis, redis_host: redis, redis_port: 6379, redis_ssl: true", ""))
	if !strings.Contains(policies, "limit: 5") || slices.ContainsFunc(findings, func(f string) bool { return strings.Contains(f, "not imported") }) ||
		!slices.Contains(findings, "a.yaml:5: note: redis_host has no effect: the Limiter has its own Redis") {
		t.Errorf("%s%v", policies, findings)
	}
	for _, config := range []string{"minute: 5, policy: redis, redis_host: redis", "minute: 5, unknown: 1"} {
		if _, findings := imported(t, objects.Kong, kongWith(config, "")); !slices.ContainsFunc(findings, func(f string) bool {
			return strings.Contains(f, "not imported: limit_by consumer: only Kong knows its consumers")
		}) {
			t.Errorf("%s: %v", config, findings)
		}
	}
}

func ingress(name, annotation, rules string) string {
	return "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: " + name + ", namespace: shop, annotations: {konghq.com/plugins: \"" + annotation + "\"}}\nspec:\n  rules: " +
		rules + "\n---\n"
}

func TestKong_UsesTheIngressThatNamesThePlugin(t *testing.T) {
	const everything = "the policies apply to all requests of their domain"
	path := func(path, pathType string) string { return "{path: " + path + ", pathType: " + pathType + "}" }
	for name, c := range map[string]struct {
		rest, match, finding string
	}{
		"one rule": {
			ingress("a", "cors, limit", "[{host: shop.example.com, http: {paths: ["+path("/v1", "Prefix")+"]}}]"),
			"http: hosts: - shop.example.com paths: - type: PathPrefix value: /v1", "",
		},
		"an exact path": {
			ingress("a", "limit", "[{http: {paths: ["+path("/login", "Exact")+"]}}]"), "http: paths: - type: Exact value: /login", "",
		},
		"hosts with the same paths": {
			ingress("a", "limit", "[{host: a.example, http: {paths: ["+path("/x", "Prefix")+"]}}, {host: b.example, http: {paths: ["+path("/x", "Prefix")+"]}}]"),
			"http: hosts: - a.example - b.example paths: - type: PathPrefix value: /x", "Kong counts each route of Ingress a alone",
		},
		"hosts with other paths": {
			ingress("a", "limit", "[{host: a.example, http: {paths: ["+path("/x", "Prefix")+"]}}, {host: b.example, http: {paths: ["+path("/y", "Exact")+"]}}]"),
			`http: expression: (request.host == "a.example" && (request.path == "/x" || request.path.startsWith("/x/"))) || (request.host == "b.example" && request.path == "/y")`,
			"Kong counts each route of Ingress a alone",
		},
		"two Ingresses": {
			ingress("a", "limit", "[{host: a.example}]") + ingress("b", "limit", "[{host: b.example}]"),
			"http: hosts: - a.example - b.example", "Kong counts each route of Ingress a, Ingress b alone",
		},
		"a path of Kong": {
			ingress("a", "limit", "[{http: {paths: [{path: /v1, pathType: ImplementationSpecific}]}}]"),
			"http: paths: - type: PathPrefix value: /v1", "path /v1 is a prefix of the text in Kong, and of path segments in the policy",
		},
		"an Ingress that names another plugin": {ingress("a", "cors", "[{host: a.example}]"), "", everything},
		"an Ingress in another namespace":      {strings.Replace(ingress("a", "limit", "[{host: a.example}]"), "shop", "bank", 1), "", everything},
		"no Ingress":                           {"", "", everything},
	} {
		policies, findings := imported(t, objects.Kong, kongWith("minute: 5, limit_by: ip, policy: redis", c.rest))
		joined := strings.Join(strings.Fields(strings.ReplaceAll(policies, "''", "'")), " ")
		if !strings.Contains(joined, c.match) || strings.Contains(joined, "match:") != (c.match != "") {
			t.Errorf("%s: without %s:\n%s", name, c.match, policies)
		}
		has := func(text string) bool {
			return slices.ContainsFunc(findings, func(f string) bool { return strings.Contains(f, "difference: "+text) })
		}
		if c.finding != "" && !has(c.finding) || has(everything) != (c.finding == everything) {
			t.Errorf("%s: %v", name, findings)
		}
	}
	_, findings := imported(t, objects.Kong, kongWith("minute: 5, limit_by: ip", ingress("a", "limit", `[{http: {paths: [{path: "/~/v[12]", pathType: ImplementationSpecific}]}}]`)))
	if !slices.ContainsFunc(findings, func(f string) bool {
		return strings.Contains(f, "not imported: path /~/v[12] is a regular expression of Kong")
	}) {
		t.Errorf("%v", findings)
	}
}

func TestKong_UsesThePlacesOfIdentities(t *testing.T) {
	for text, want := range map[string]string{
		"consumer=header:x-consumer":  "identifier: fallbacks: - expression: request.clientIP header: x-consumer onMissing: Shared",
		"consumer=claim:realm.tenant": "identifier: claim: realm.tenant fallbacks: - expression: request.clientIP onMissing: Shared",
		"consumer=query:user":         "identifier: fallbacks: - expression: request.clientIP onMissing: Shared query: user",
		"consumer=address":            "identifier: expression: request.clientIP limit: 5",
	} {
		identity, source, err := objects.ParseIdentity(text)
		if err != nil {
			t.Fatal(err)
		}
		with := func(files []policyfile.File) *importer.Result {
			return objects.KongWith(files, map[string]v1alpha1.IdentifierSource{identity: source, "credential": source})
		}
		policies, findings := imported(t, with, kongWith("minute: 5, policy: redis", ingress("a", "limit", "[{host: a.example}]")))
		if joined := strings.Join(strings.Fields(policies), " "); !strings.Contains(joined, want) {
			t.Errorf("%s: without %s:\n%s", text, want, policies)
		}
		if diff := cmp.Diff([]string{"a.yaml:1: note: no plugin counts by the credential of --map"}, findings); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for _, text := range []string{"ip=header:a", "consumer", "consumer=header:", "consumer=cookie:a", "consumer=claims"} {
		if _, _, err := objects.ParseIdentity(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// What names a plugin decides which requests it applies to. A wider policy than the plugin would deny requests that Kong allows.
func TestKong_UsesAllObjectsThatNameThePlugin(t *testing.T) {
	named := func(apiVersion, kind, rest string) string {
		return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: o, namespace: shop, annotations: {konghq.com/plugins: limit}}\n" + rest
	}
	route := func(rest string) string {
		return "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: o, namespace: shop" + rest
	}
	for name, c := range map[string]struct{ rest, want, finding string }{
		"an HTTPRoute": {
			named("gateway.networking.k8s.io/v1", "HTTPRoute", "spec: {hostnames: [a.example, b.example], rules: [{matches: [{path: {value: /x}, method: GET}]}]}"),
			"http: hosts: - a.example - b.example methods: - GET paths: - type: PathPrefix value: /x", "Kong counts each route of HTTPRoute o alone",
		},
		"an HTTPRoute with other methods": {
			named("gateway.networking.k8s.io/v1", "HTTPRoute", "spec: {rules: [{matches: [{path: {type: Exact, value: /x}, method: GET}, {path: {value: /y}, method: PUT}]}]}"),
			`expression: (request.method in ["GET"] && request.path == "/x") || (request.method in ["PUT"] && (request.path == "/y" || request.path.startsWith("/y/")))`,
			"Kong counts each route of HTTPRoute o alone",
		},
		"a rule of an HTTPRoute": {
			route("}\nspec: {rules: [{matches: [{path: {value: /x}}]}, {filters: [{type: ExtensionRef, extensionRef: {group: configuration.konghq.com, kind: KongPlugin, name: limit}}, " +
				"{type: ExtensionRef, extensionRef: {kind: Other, name: limit}}], matches: [{path: {value: /y}}]}]}"),
			"http: paths: - type: PathPrefix value: /y", "",
		},
		"an HTTPRoute without matches":    {named("gateway.networking.k8s.io/v1", "HTTPRoute", "spec: {hostnames: [a.example], rules: [{}]}"), "http: hosts: - a.example", ""},
		"an HTTPRoute without rules":      {named("gateway.networking.k8s.io/v1", "HTTPRoute", "spec: {hostnames: [a.example]}"), "http: hosts: - a.example", ""},
		"an HTTPRoute with headers":       {named("gateway.networking.k8s.io/v1", "HTTPRoute", "spec: {rules: [{matches: [{headers: [{name: a, value: b}]}]}]}"), "", "not imported: headers of a route: no policy is written"},
		"an HTTPRoute with an expression": {named("gateway.networking.k8s.io/v1", "HTTPRoute", "spec: {rules: [{matches: [{path: {type: RegularExpression, value: /a.}}]}]}"), "", "not imported: path of type RegularExpression of a route"},
		"a Service":                       {named("v1", "Service", ""), "limit: 5", "difference: the plugin limit applies to the requests for the Service o"},
		"a consumer":                      {named("configuration.konghq.com/v1", "KongConsumer", ""), "", "not imported: the plugin limit applies to the requests of KongConsumer o"},
		"a group of consumers":            {named("configuration.konghq.com/v1beta1", "KongConsumerGroup", ""), "", "not imported: the plugin limit applies to the requests of KongConsumerGroup o"},
		"a path of Kong that is all":      {ingress("a", "limit", "[{http: {paths: [{path: /, pathType: ImplementationSpecific}]}}]"), "limit: 5", ""},
		"a regular expression":            {ingress("a", "limit", `[{http: {paths: [{path: "/~/v[12]", pathType: ImplementationSpecific}]}}]`), "", "is a regular expression of Kong"},
	} {
		policies, findings := imported(t, objects.Kong, kongWith("minute: 5, limit_by: ip, policy: redis", c.rest))
		joined := strings.Join(strings.Fields(strings.ReplaceAll(policies, "''", "'")), " ")
		if !strings.Contains(joined, c.want) || (policies == "") != (c.want == "") {
			t.Errorf("%s: without %s:\n%s", name, c.want, policies)
		}
		if text := strings.Join(findings, "\n"); !strings.Contains(text, c.finding) || c.finding == "" && text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestKong_AGlobalPluginAppliesToAllRequests(t *testing.T) {
	const global = "apiVersion: configuration.konghq.com/v1\nkind: KongClusterPlugin\nmetadata: {name: all, labels: {global: \"true\"}}\nplugin: rate-limiting\n" +
		"config: {minute: 100, limit_by: ip, policy: redis}\n"
	policies, findings := imported(t, objects.Kong, global)
	if len(findings) != 0 || !strings.Contains(policies, "kind: ClusterRateLimitPolicy") || strings.Contains(policies, "match") {
		t.Errorf("%s%v", policies, findings)
	}
	_, findings = imported(t, objects.Kong, global+"---\n"+kongWith("minute: 5, limit_by: ip, policy: redis", ingress("a", "limit", "[{host: a.example}]")))
	want := []string{"a.yaml:1: difference: Kong does not apply this plugin to the requests of a more specific one, such as limit; the policies apply to them, too"}
	if diff := cmp.Diff(want, findings); diff != "" {
		t.Error(diff)
	}
}

func TestKong_ReportsAPluginOfAServiceNextToThatOfItsRoute(t *testing.T) {
	const content = `services:
- name: shop
  plugins: [{name: rate-limiting, config: {minute: 5, limit_by: ip, policy: redis}}]
  routes: [{name: a, hosts: [a.example]}, {name: b, hosts: [b.example]}]
- name: bank
  routes: [{name: c, hosts: [c.example]}]
plugins:
- {name: rate-limiting, route: ROUTE, config: {minute: 1, limit_by: ip, policy: redis}}
`
	const routes = "a.yaml:3: difference: Kong counts each route of service shop alone; the policies count all of them together"
	const broader = "a.yaml:3: difference: Kong does not apply this plugin to the requests of a more specific one, such as rate-limiting route b; the policies apply to them, too"
	for route, want := range map[string][]string{"b": {routes, broader}, "c": {routes}} {
		_, findings := imported(t, objects.Kong, strings.Replace(content, "ROUTE", route, 1))
		if diff := cmp.Diff(want, findings); diff != "" {
			t.Errorf("%s: %s", route, diff)
		}
	}
	global := strings.Replace(content, ", route: ROUTE", "", 1)
	want := []string{routes, "a.yaml:8: difference: Kong does not apply this plugin to the requests of a more specific one, such as rate-limiting service shop; the policies apply to them, too"}
	if _, findings := imported(t, objects.Kong, global); !slices.Equal(findings, want) {
		t.Errorf("%q", findings)
	}
}

func TestKong_RejectsAPluginWithoutName(t *testing.T) {
	_, findings := imported(t, objects.Kong, "apiVersion: configuration.konghq.com/v1\nkind: KongPlugin\nmetadata: {name: a}\nspec: {plugin: rate-limiting}\n")
	if diff := cmp.Diff([]string{"a.yaml:1: error: plugin is missing; Kong requires the name of the plugin, such as rate-limiting"}, findings); diff != "" {
		t.Error(diff)
	}
}

func TestKong_ReadsConfigurationsOfDecK(t *testing.T) {
	const plugin = "{name: rate-limiting, config: {minute: 5, limit_by: ip, policy: redis}"
	for name, c := range map[string]struct {
		content, want string
		findings      []string
	}{
		"of everything": {"_format_version: '3.0'\nplugins:\n- " + plugin + "}\n", "name: rate-limiting-minute namespace: default", nil},
		"of a service": {
			"services:\n- name: shop\n  plugins:\n  - " + plugin + "}\n  routes:\n  - {name: a, hosts: [a.example], methods: [GET, POST]}\n",
			"http: hosts: - a.example methods: - GET - POST onStoreFailure", nil,
		},
		"of a service with several routes": {
			"services:\n- name: shop\n  plugins:\n  - " + plugin + "}\n  routes:\n  - {name: a, hosts: [a.example], methods: [GET]}\nroutes:\n- {service: {name: shop}, hosts: [b.example]}\n",
			`(request.host == "a.example" && request.method in ["GET"]) || (request.host == "b.example")`,
			[]string{"a.yaml:4: difference: Kong counts each route of service shop alone; the policies count all of them together"},
		},
		"of a route": {
			"routes:\n- name: a\n  paths: [/v1]\n  plugins:\n  - " + plugin + ", enabled: true, tags: [a]}\n", "paths: - type: PathPrefix value: /v1",
			[]string{"a.yaml:5: difference: path /v1 is a prefix of the text in Kong, and of path segments in the policy (PathPrefix): /a matches /a/b, and not /ab"},
		},
		"with a reference": {
			"routes: [{name: a, hosts: [a.example]}]\nplugins:\n- " + plugin + ", route: a}\n", "hosts: - a.example", nil,
		},
		"with a mapping as reference": {
			"services: [{name: b, routes: [{hosts: [a.example]}]}]\nplugins:\n- " + plugin + ", service: {name: b}}\n", "name: rate-limiting-service-b-minute", nil,
		},
		"of a consumer": {
			"consumers:\n- username: acme\n  plugins:\n  - " + plugin + "}\n", "",
			[]string{"a.yaml:4: not imported: the plugin applies to consumer acme; write a policy with a condition on the header or claim of the consumer"},
		},
		"of a consumer by reference": {
			"plugins:\n- " + plugin + ", consumer: acme}\n", "",
			[]string{"a.yaml:2: not imported: consumer: the plugin applies to one consumer; write a policy with a condition on the header or claim of the consumer"},
		},
		"disabled": {
			"plugins:\n- " + plugin + ", enabled: false}\n", "", []string{"a.yaml:2: note: the plugin is disabled, so it does not need a policy"},
		},
		"of a service without routes": {
			"services:\n- name: shop\n  plugins:\n  - " + plugin + "}\n", "", []string{"a.yaml:4: not imported: service shop has no route in the files; add its routes"},
		},
		"of a route with a condition that policies do not have": {
			"routes:\n- hosts: [a.example]\n  snis: [a.example]\n  plugins: [" + plugin + "}]\n", "",
			[]string{"a.yaml:4: not imported: snis of a route: no policy is written; write one with the condition in match.http"},
		},
		"of a route with a host pattern": {
			"routes:\n- hosts: [a.*]\n  plugins: [" + plugin + "}]\n", "",
			[]string{"a.yaml:3: not imported: host a.* of a route: no policy is written; write one with the condition in match.http"},
		},
		"of a route with a regular expression": {
			"routes:\n- paths: [~/v1$]\n  plugins: [" + plugin + "}]\n", "",
			[]string{"a.yaml:3: not imported: path ~/v1$ is a regular expression of Kong; write a policy with match.http.paths of type RegularExpression"},
		},
		"of several kinds": {
			"plugins:\n- {name: rate-limiting-advanced}\n- {name: cors}\n- {name: rate-limiting, _config: a, config: {day: 1, limit_by: ip}}\n", "",
			[]string{
				"a.yaml:2: not imported: plugin rate-limiting-advanced is not imported; only rate-limiting is",
				"a.yaml:3: note: plugin cors is not imported; only rate-limiting is",
				"a.yaml:4: not imported: _config: it names a configuration for several plugins; write the configuration in config",
			},
		},
	} {
		policies, findings := imported(t, objects.Kong, c.content)
		joined := strings.Join(strings.Fields(strings.ReplaceAll(policies, "''", "'")), " ")
		if diff := cmp.Diff(c.findings, findings); diff != "" || !strings.Contains(joined, c.want) || (policies == "") != (c.want == "") {
			t.Errorf("%s: without %s:\n%s\n%s", name, c.want, policies, diff)
		}
	}
}

func TestTraefik_ReadsConfigurationsOfTheFileProvider(t *testing.T) {
	policies, findings := imported(t, objects.Traefik, "http:\n  routers: {}\n  middlewares:\n    slow:\n      rateLimit: {average: 5, burst: 7, period: 0, redis: {}}\n    auth: {basicAuth: {}}\n"+
		"tcp:\n  middlewares: {few: {inFlightConn: {amount: 1}}}\n")
	want := []string{
		"a.yaml:5: difference: the policy applies to all requests of its domain, because no router in the files has the middleware; add its router to the files, or add match.http",
		"a.yaml:5: note: redis has no effect: the Limiter has its own Redis",
		"a.yaml:6: note: basicAuth is not a rate limit; keep the middleware",
		"a.yaml:8: not imported: inFlightConn: Weir limits rates, and not how many requests are in progress; keep the middleware",
	}
	slices.Sort(want)
	slices.Sort(findings)
	if diff := cmp.Diff(want, findings); diff != "" {
		t.Error(diff)
	}
	if joined := strings.Join(strings.Fields(policies), " "); !strings.Contains(joined, "name: slow namespace: default") || !strings.Contains(joined, "burst: 7") || !strings.Contains(joined, "limit: 5 window: 1s") {
		t.Error(policies)
	}
	for content, want := range map[string]string{
		"http: {routers: {}}": "a.yaml:1: error: no file has an object of kind Middleware in traefik.io",
		"a: 1\nb: 2\n":        "a.yaml:1: note: skipped: a document without apiVersion and kind, with the fields a, b",
	} {
		if _, findings := imported(t, objects.Traefik, content); !slices.Contains(findings, want) {
			t.Errorf("%s: %v", content, findings)
		}
	}
	policies, findings = imported(t, objects.Traefik, "apiVersion: traefik.containo.us/v1alpha1\nkind: Middleware\nmetadata: {name: old, namespace: shop}\nspec: {rateLimit: {average: 5}}\n")
	if !strings.Contains(policies, "name: old\n") || slices.ContainsFunc(findings, func(f string) bool { return !strings.Contains(f, ": difference: ") }) {
		t.Errorf("%s%v", policies, findings)
	}
}

// Each router of a middleware counts alone, in Traefik and in the policies.
func TestTraefik_ConvertsTheRulesOfRouters(t *testing.T) {
	const middlewares = "apiVersion: traefik.io/v1alpha1\nkind: Middleware\nmetadata: {name: slow, namespace: shop}\nspec: {rateLimit: {average: 5, redis: {}}}\n---\n" +
		"apiVersion: traefik.io/v1alpha1\nkind: Middleware\nmetadata: {name: all, namespace: shop}\nspec: {chain: {middlewares: [{name: slow}, {name: all}]}}\n---\n"
	route := func(routes string) string {
		return "apiVersion: traefik.io/v1alpha1\nkind: IngressRoute\nmetadata: {name: api, namespace: shop}\nspec:\n  routes:\n" + routes + "---\n"
	}
	const one = "  - {kind: Rule, match: 'Host(`a.example`) && Path(`/v1`)', middlewares: [{name: slow}]}\n"
	const note = "a.yaml:4: note: redis has no effect: the Limiter has its own Redis"
	for name, c := range map[string]struct {
		content  string
		policies []string
		findings []string
	}{
		"an IngressRoute": {middlewares + route(one), []string{"name: slow-api namespace: shop spec: algorithm: TokenBucket axis: Custom burst: 1 identifier: expression: request.clientIP limit: 5 " +
			"match: http: hosts: - a.example paths: - type: Exact value: /v1 window: 1s"}, []string{note}},
		"two routes, and a chain": {
			middlewares + route(one+"  - {kind: Rule, match: 'Host(`b.example`)', middlewares: [{name: all}]}\n"),
			[]string{"name: slow-api-1 namespace", "hosts: - a.example", "name: slow-api-2 namespace", "hosts: - b.example"},
			[]string{note},
		},
		"a router next to it": {
			middlewares + route(one+"  - {kind: Rule, match: 'PathPrefix(`/v1`)'}\n"),
			[]string{"name: slow-api-1"},
			[]string{note, "a.yaml:16: difference: Traefik sends a request to one router, by priority, and the policy also applies to requests of router api-2 (a.yaml:17) that match this rule"},
		},
		"a rule that no policy expresses": {
			middlewares + route("  - match: 'Host(`a.example`) || ClientIP(`10.0.0.0/8`)'\n    middlewares: [{name: slow}]\n"), nil,
			[]string{note, "a.yaml:16: not imported: router api with middleware slow: ClientIP inside of || or ! cannot be expressed: write a policy with match.http.cidrs"},
		},
		"an Ingress": {
			middlewares + "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web, namespace: shop, annotations: {traefik.ingress.kubernetes.io/router.middlewares: 'x-y@file, shop-slow@kubernetescrd'}}\n" +
				"spec: {rules: [{host: a.example, http: {paths: [{path: /a, pathType: Exact}]}}]}\n", []string{"name: slow-web", "hosts: - a.example paths: - type: Exact value: /a"}, []string{note},
		},
		"another namespace": {
			middlewares + strings.Replace(strings.Replace(route(one), "namespace: shop", "namespace: other", 1), "{name: slow}", "{name: slow, namespace: shop}", 1), []string{"name: slow-api namespace: shop"}, []string{note},
		},
		"the file provider": {
			"http:\n  routers:\n    api: {rule: 'PathRegexp(`^/v[0-9]`)', middlewares: [slow@file, auth]}\n  middlewares:\n    slow: {rateLimit: {average: 5, redis: {}}}\n",
			[]string{"name: slow-api namespace: default", `match: http: expression: request.path.matches("^/v[0-9]")`},
			[]string{"a.yaml:5: note: redis has no effect: the Limiter has its own Redis"},
		},
	} {
		policies, findings := imported(t, objects.Traefik, c.content)
		if diff := cmp.Diff(c.findings, findings); diff != "" || (policies == "") != (c.policies == nil) {
			t.Errorf("%s: %s\n%s", name, diff, policies)
		}
		joined := strings.Join(strings.Fields(policies), " ")
		for _, want := range c.policies {
			if !strings.Contains(joined, want) {
				t.Errorf("%s: without %q: %s", name, want, joined)
			}
		}
	}
}

func TestEventRateLimit_ReadsTheConfigurationOfAllPlugins(t *testing.T) {
	const begin = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n  path: security.yaml\n- name: EventRateLimit\n"
	const configuration = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: [{type: Server, qps: 5, burst: 10}]\n"
	differences := func(findings []string) int {
		return len(slices.DeleteFunc(slices.Clone(findings), func(f string) bool { return !strings.Contains(f, ": difference: ") }))
	}
	for name, content := range map[string]string{
		"inside":               begin + "  configuration:\n    " + strings.ReplaceAll(strings.TrimSpace(configuration), "\n", "\n    ") + "\n",
		"in another document":  begin + "  path: events.yaml\n---\n" + configuration,
		"without a path of it": "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n---\n" + configuration,
	} {
		policies, findings := imported(t, objects.EventRateLimit, content)
		if !strings.Contains(policies, "name: events-server\n") || differences(findings) != 2 || strings.Contains(strings.Join(findings, " "), "error") {
			t.Errorf("%s: %s%v", name, policies, findings)
		}
	}
	_, findings := imported(t, objects.EventRateLimit, begin+"  path: events.yaml\n")
	if diff := cmp.Diff([]string{"a.yaml:7: error: the configuration of EventRateLimit is in the file events.yaml; name this file, too"}, findings); diff != "" {
		t.Error(diff)
	}
}

// kuadrantRoute returns a policy for the route toys with the fields, which begin in line 6.
func kuadrantRoute(fields string) string {
	return "apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nmetadata: {name: toys, namespace: shop}\nspec:\n  targetRef: {kind: HTTPRoute, name: toys, namespace: shop}\n" + fields + "\n"
}

// For a route, defaults and overrides are what limits are: nothing is between it and its requests.
func TestKuadrant_ReadsAllFieldsOfAPolicyForARoute(t *testing.T) {
	const limits = `{all: {rates: [{limit: 5, window: 10s}]}}`
	const target = `e.value in ["HTTPRoute/toys"]))`
	const windows = "difference: windows begin at multiples of their length, and not with the first request"
	for name, c := range map[string]struct {
		fields, want string
		findings     []string
	}{
		"defaults":                 {"  defaults:\n    strategy: merge\n    limits: " + limits, "limit: 5", []string{"a.yaml:8: " + windows}},
		"overrides":                {"  overrides: {limits: " + limits + "}", "limit: 5", []string{"a.yaml:6: " + windows}},
		"when":                     {"  when: [{predicate: request.method == 'GET'}]\n  limits: " + limits, target + " && (request.method == 'GET')", []string{"a.yaml:7: " + windows}},
		"when of defaults":         {"  defaults: {limits: " + limits + ", when: [{predicate: request.method == 'GET'}]}", target + " && (request.method == 'GET')", []string{"a.yaml:6: " + windows}},
		"an unknown condition":     {"  when: [{predicate: auth.a == 'b'}]\n  limits: " + limits, "", []string{"a.yaml:6: not imported: predicate: auth.a is not an attribute of requests to Weir; if a header or claim has its value, use for example --map auth.a=header:x-user-id"}},
		"an unknown field":         {"  defaults: {limit: {}}\n  limits: " + limits, "limit: 5", []string{"a.yaml:6: not imported: limit: unknown field of defaults; the fields are strategy, when, limits", "a.yaml:7: " + windows}},
		"no limits":                {"  defaults: {}", "", []string{"a.yaml:1: error: limits is missing; Kuadrant requires at least one limit"}},
		"empty limits":             {"  limits: {}", "", []string{"a.yaml:6: error: limits is empty; Kuadrant requires at least one limit"}},
		"the path":                 {"  limits: {all: {rates: [{limit: 5, window: 10s}], when: [{predicate: request.path == '/toys'}]}}", "(request.path == '/toys')", []string{"a.yaml:6: " + windows, `a.yaml:6: difference: predicate: request.path of Kuadrant has the query string, and the path of the policy does not: "/a?b" is "/a"`}},
		"the path with a query":    {"  limits: {all: {rates: [{limit: 5, window: 10s}], when: [{predicate: \"request.path == '/a?b'\"}]}}", "", []string{"a.yaml:6: not imported: predicate: it compares request.path with a query string, which the path of a policy does not have; compare request.url_path, and the parameters with request.query of the policy"}},
		"the address of the peer":  {"  limits: {all: {rates: [{limit: 5, window: 10s}], counters: [{expression: source.address}]}}", "expression: string(request.clientIP)", []string{"a.yaml:6: " + windows, "a.yaml:6: difference: expression: source.address of Kuadrant is the address and the port of a connection, and the policy has the address only: all connections of a client share a counter"}},
		"headers with other names": {"  limits: {all: {rates: [{limit: 5, window: 10s}], counters: [{expression: request.useragent}]}}", `expression: string(request.headers["user-agent"])`, []string{"a.yaml:6: " + windows}},
		"a rate of version v1beta2": {
			"  limits: {all: {rates: [{limit: 5, duration: 2, unit: minute}]}}", target + " window: 2m", []string{"a.yaml:6: " + windows},
		},
		"a mapped path": {"  limits: {all: {rates: [{limit: 5, window: 10s}], when: [{predicate: \"request.path == '/a?b'\"}]}}", `(request.headers[?"x-path"].orValue("") == '/a?b')`, []string{"a.yaml:6: " + windows}},
	} {
		attributes := map[string]string{}
		if name == "a mapped path" {
			attributes["request.path"] = `request.headers[?"x-path"].orValue("")`
		}
		with := func(files []policyfile.File) *importer.Result { return objects.KuadrantWith(files, attributes) }
		policies, findings := imported(t, with, kuadrantRoute(c.fields))
		joined := strings.Join(strings.Fields(strings.ReplaceAll(policies, "''", "'")), " ")
		slices.Sort(findings)
		slices.Sort(c.findings)
		if diff := cmp.Diff(c.findings, findings); diff != "" || !strings.Contains(joined, c.want) || (policies == "") != (c.want == "") {
			t.Errorf("%s: without %s:\n%s\n%s", name, c.want, policies, diff)
		}
	}
}

func TestKuadrant_ReportsPoliciesForSectionsOfARoute(t *testing.T) {
	route := kuadrantRoute("  limits: {all: {rates: [{limit: 5, window: 10s}]}}")
	section := strings.NewReplacer("metadata: {name: toys", "metadata: {name: one", "kind: HTTPRoute", "sectionName: create, kind: HTTPRoute").Replace(route)
	_, findings := imported(t, objects.Kuadrant, route+"---\n"+section)
	const want = "a.yaml:1: difference: in Kuadrant, the policy one replaces this one, or is replaced by it, for the requests of the section create; here both apply to them"
	if !slices.Contains(findings, want) || len(findings) != 3 {
		t.Errorf("%q", findings)
	}
}

func TestKuadrant_RejectsLimitsOfLimitador(t *testing.T) {
	_, findings := imported(t, objects.Kuadrant, "- {namespace: shop, max_value: 5, seconds: 60}\n- {namespace: bank, max_value: 5, seconds: 60}\n")
	const want = ": not imported: a limit of Limitador is not read; import the RateLimitPolicy of Kuadrant that it comes from, or write a policy"
	if diff := cmp.Diff([]string{"a.yaml:1" + want, "a.yaml:2" + want}, findings); diff != "" {
		t.Error(diff)
	}
}

func TestKuadrant_RejectsATargetInAnotherNamespace(t *testing.T) {
	_, findings := imported(t, objects.Kuadrant, strings.Replace(kuadrantRoute("  limits: {all: {rates: [{limit: 5, window: 10s}]}}"), "name: toys, namespace: shop}\n  limits", "name: toys, namespace: bank}\n  limits", 1))
	const want = "a.yaml:5: not imported: namespace: the target is in another namespace than the policy, shop; write the policy in the namespace of the target"
	if !slices.Contains(findings, want) {
		t.Errorf("%q", findings)
	}
}
