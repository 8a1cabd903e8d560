package objects_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			"http: hosts: - a.example - b.example", "Kong counts each route of Ingress a, b alone",
		},
		"a path of Kong": {
			ingress("a", "limit", "[{http: {paths: [{path: /v1, pathType: ImplementationSpecific}]}}]"),
			"http: paths: - type: PathPrefix value: /v1", "path /v1 has the type ImplementationSpecific",
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

func TestObjects_NameWhatTheySkip(t *testing.T) {
	const deck = `_format_version: "3.0"
services:
- name: shop
  plugins:
  - {name: rate-limiting, config: {minute: 5}}
  routes:
  - name: search
    plugins:
    - {name: rate-limiting-advanced}
    - {name: cors}
consumers:
- username: acme
  plugins: [{name: response-ratelimiting}]
plugins:
- name: rate-limiting
`
	_, findings := imported(t, objects.Kong, deck)
	want := []string{
		"a.yaml:1: not imported: a configuration of decK is not read, only Kubernetes objects are; write each as a KongPlugin to import it",
		"a.yaml:1: error: no file has an object of kind KongPlugin or KongClusterPlugin in configuration.konghq.com",
		"a.yaml:5: not imported: plugin rate-limiting of service shop is skipped",
		"a.yaml:9: not imported: plugin rate-limiting-advanced of route search of service shop is skipped",
		"a.yaml:13: not imported: plugin response-ratelimiting of consumer acme is skipped",
		"a.yaml:15: not imported: plugin rate-limiting is skipped",
	}
	if diff := cmp.Diff(want, findings); diff != "" {
		t.Error(diff)
	}
	_, findings = imported(t, objects.Traefik, "http:\n  middlewares:\n    slow:\n      rateLimit: {average: 5}\n    auth: {basicAuth: {}}\n")
	want = []string{
		"a.yaml:1: not imported: a configuration of the file provider of Traefik is not read, only Kubernetes objects are; write each as a Middleware to import it",
		"a.yaml:1: error: no file has an object of kind Middleware in traefik.io",
		"a.yaml:3: not imported: middleware slow (rateLimit) is skipped",
	}
	if diff := cmp.Diff(want, findings); diff != "" {
		t.Error(diff)
	}
	if _, findings = imported(t, objects.Kong, "a: 1\nb: 2\n"); findings[0] != "a.yaml:1: note: skipped: a document without apiVersion and kind, with the fields a, b" {
		t.Errorf("%v", findings)
	}
}
