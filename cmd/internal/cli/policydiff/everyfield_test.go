package policydiff_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/policydiff"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/structure"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // the examples have expressions
)

// compare compares two texts with policies.
func compare(t *testing.T, before, after string) *policydiff.Diff {
	t.Helper()
	set := func(text string) *policyset.Set {
		s, err := policyset.Compile([]policyfile.File{{Name: "policies.yaml", Content: []byte(text)}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Problems) > 0 {
			t.Fatalf("%s\n%s", s.Problems[0], text)
		}
		return s
	}
	d, err := policydiff.Compare(set(before), set(after), policydiff.Scope{Policies: func(string) bool { return true }, Limiters: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const base = "axis: User, limit: 10, window: 1m"

// examples has two specs for each field of a policy, which differ in this field. Of lists, it is one of the items.
func examples() map[string][2]string {
	with := func(a, b string) [2]string { return [2]string{base + ", " + a, base + ", " + b} }
	all := map[string][2]string{
		"axis":      {base, "axis: Tenant, limit: 10, window: 1m"},
		"limit":     {base, "axis: User, limit: 11, window: 1m"},
		"window":    {base, "axis: User, limit: 10, window: 2m"},
		"algorithm": with("algorithm: FixedWindow", "algorithm: TokenBucket"),
		"burst":     with("algorithm: TokenBucket, burst: 5", "algorithm: TokenBucket, burst: 6"),

		"cost.value": with("cost: {value: 1}", "cost: {value: 2}"), "cost.header": with("cost: {header: x-a}", "cost: {header: x-b}"),
		"cost.expression": with("cost: {expression: '1'}", "cost: {expression: '2'}"),
		"counterName":     with("counterName: a", "counterName: b"),

		"denial.status": with("denial: {status: 403}", "denial: {status: 503}"), "denial.message": with("denial: {message: a}", "denial: {message: b}"),
		"denial.contentType":     with("denial: {message: a, contentType: text/plain}", "denial: {message: a, contentType: application/json}"),
		"denial.headers[].name":  with("denial: {headers: [{name: X-A, value: a}]}", "denial: {headers: [{name: X-B, value: a}]}"),
		"denial.headers[].value": with("denial: {headers: [{name: X-A, value: a}]}", "denial: {headers: [{name: X-A, value: b}]}"),

		"domains[]": with("domains: [a]", "domains: [b]"), "enforcement": with("enforcement: Enforce", "enforcement: Shadow"),
		"identifier.onMissing": with("identifier: {onMissing: Skip}", "identifier: {onMissing: Deny}"),
		"lease.maxAge":         with("lease: {maxAge: 1s}", "lease: {maxAge: 2s}"), "lease.maxShare": with("lease: {maxShare: 5%}", "lease: {maxShare: 20%}"),
		"localShare": with("localShare: Equal", "localShare: Whole"),

		"match.descriptors[].key":      with("match: {descriptors: [{key: a}]}", "match: {descriptors: [{key: b}]}"),
		"match.descriptors[].value":    with("match: {descriptors: [{key: a, value: a}]}", "match: {descriptors: [{key: a, value: b}]}"),
		"match.descriptors[].pattern":  with("match: {descriptors: [{key: a, pattern: a*}]}", "match: {descriptors: [{key: a, pattern: b*}]}"),
		"match.descriptors[].except[]": with("match: {descriptors: [{key: a, except: [a]}]}", "match: {descriptors: [{key: a, except: [b]}]}"),

		"match.http.cidrs[]":         with("match: {http: {cidrs: [10.0.0.0/8]}}", "match: {http: {cidrs: [11.0.0.0/8]}}"),
		"match.http.exceptCIDRs[]":   with("match: {http: {exceptCIDRs: [10.0.0.0/8]}}", "match: {http: {exceptCIDRs: [11.0.0.0/8]}}"),
		"match.http.expression":      with("match: {http: {expression: 'request.path == \"/a\"'}}", "match: {http: {expression: 'request.path == \"/b\"'}}"),
		"match.http.headers[].name":  with("match: {http: {headers: [{name: x-a, value: a}]}}", "match: {http: {headers: [{name: x-b, value: a}]}}"),
		"match.http.headers[].value": with("match: {http: {headers: [{name: x-a, value: a}]}}", "match: {http: {headers: [{name: x-a, value: b}]}}"),
		"match.http.headers[].type":  with("match: {http: {headers: [{name: x-a, value: a}]}}", "match: {http: {headers: [{name: x-a, value: a, type: RegularExpression}]}}"),
		"match.http.headers[].invert": with("match: {http: {headers: [{name: x-a, value: a}]}}",
			"match: {http: {headers: [{name: x-a, value: a, invert: true}]}}"),
		"match.http.hosts[]":       with("match: {http: {hosts: [a.example]}}", "match: {http: {hosts: [b.example]}}"),
		"match.http.ignoreCase":    with("match: {http: {paths: [{value: /a}]}}", "match: {http: {paths: [{value: /a}], ignoreCase: true}}"),
		"match.http.methods[]":     with("match: {http: {methods: [GET]}}", "match: {http: {methods: [POST]}}"),
		"match.http.paths[].type":  with("match: {http: {paths: [{value: /a}]}}", "match: {http: {paths: [{value: /a, type: Exact}]}}"),
		"match.http.paths[].value": with("match: {http: {paths: [{value: /a}]}}", "match: {http: {paths: [{value: /b}]}}"),

		"onStoreFailure": with("onStoreFailure: Local", "onStoreFailure: Deny"), "overrun": with("overrun: Deny", "overrun: Debt"),
		"precedence": with("precedence: Override", "precedence: Default"), "replaces[]": with("replaces: [a]", "replaces: [b]"),
		"scope": with("scope: Policy", "scope: Endpoint"), "storage": with("storage: Exact", "storage: Compact"),

		"targetRefs[].kind": with("targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a}]",
			"targetRefs: [{group: gateway.networking.k8s.io, kind: GRPCRoute, name: a}]"),
		"targetRefs[].name": with("targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a}]",
			"targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: b}]"),
		"targetRefs[].namespace": with("targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: a, namespace: a}]",
			"targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: a, namespace: b}]"),
		"targetRefs[].sectionName": with("targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a, sectionName: a}]",
			"targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a, sectionName: b}]"),

		"tiers[].name":  with("tiers: [{name: a, when: {groups: [g]}, limit: 5}]", "tiers: [{name: b, when: {groups: [g]}, limit: 5}]"),
		"tiers[].limit": with("tiers: [{name: a, when: {groups: [g]}, limit: 5}]", "tiers: [{name: a, when: {groups: [g]}, limit: 6}]"),
		"tiers[].burst": with("algorithm: TokenBucket, tiers: [{name: a, when: {groups: [g]}, limit: 5, burst: 6}]",
			"algorithm: TokenBucket, tiers: [{name: a, when: {groups: [g]}, limit: 5, burst: 7}]"),
		"tiers[].unlimited": with("tiers: [{name: a, when: {groups: [g]}, limit: 5}]", "tiers: [{name: a, when: {groups: [g]}, unlimited: true}]"),
	}
	for _, source := range []string{"claim", "cookie", "header", "query", "descriptor"} {
		all["identifier."+source] = with("identifier: {"+source+": a}", "identifier: {"+source+": b}")
		all["identifier.fallbacks[]."+source] = with("identifier: {header: x, fallbacks: [{"+source+": a}]}", "identifier: {header: x, fallbacks: [{"+source+": b}]}")
	}
	all["identifier.expression"] = with("identifier: {expression: '\"a\"'}", "identifier: {expression: '\"b\"'}")
	all["identifier.fallbacks[].expression"] = with("identifier: {header: x, fallbacks: [{expression: '\"a\"'}]}", "identifier: {header: x, fallbacks: [{expression: '\"b\"'}]}")

	rates := func(fields string) string { return "axis: User, rates: [{window: 1h, limit: 50}, {" + fields + "}]" }
	tierRates := func(fields string) string {
		return rates("window: 1m, limit: 5") + ", tiers: [{name: a, when: {groups: [g]}, rates: [{" + fields + "}]}]"
	}
	for prefix, of := range map[string]func(string) string{"rates[].": rates, "tiers[].rates[].": tierRates} {
		all[prefix+"limit"] = [2]string{of("window: 1m, limit: 5"), of("window: 1m, limit: 6")}
		all[prefix+"window"] = [2]string{of("window: 1m, limit: 5"), of("window: 2m, limit: 5")}
		all[prefix+"algorithm"] = [2]string{of("window: 1m, limit: 5"), of("window: 1m, limit: 5, algorithm: FixedWindow")}
		all[prefix+"burst"] = [2]string{of("window: 1m, limit: 5, algorithm: TokenBucket, burst: 6"), of("window: 1m, limit: 5, algorithm: TokenBucket, burst: 7")}
	}

	writes := func(more string) string {
		return base + ", match: {kubernetes: {resources: [{apiGroups: [apps], resources: [deployments], operations: [CREATE]}]" + more + "}}"
	}
	for _, list := range []string{"namespaces", "users", "groups", "exceptUsers", "exceptGroups"} {
		all["match.kubernetes."+list+"[]"] = [2]string{writes(", " + list + ": [a]"), writes(", " + list + ": [b]")}
	}
	all["match.kubernetes.expression"] = [2]string{writes(", expression: 'request.name == \"a\"'"), writes(", expression: 'request.name == \"b\"'")}
	for field, change := range map[string][2]string{"apiGroups": {"[apps]", "[batch]"}, "resources": {"[deployments]", "[statefulsets]"}, "operations": {"[CREATE]", "[UPDATE]"}} {
		text := writes("")
		all["match.kubernetes.resources[]."+field+"[]"] = [2]string{text, strings.Replace(text, field+": "+change[0], field+": "+change[1], 1)}
	}
	selectors := func(prefix string, of func(string) string) {
		one := func(fields string) string { return of("{matchExpressions: [{" + fields + "}]}") }
		all[prefix+"matchLabels{}"] = [2]string{of("{matchLabels: {team: a}}"), of("{matchLabels: {team: b}}")}
		all[prefix+"matchExpressions[].key"] = [2]string{one("key: a, operator: Exists"), one("key: b, operator: Exists")}
		all[prefix+"matchExpressions[].operator"] = [2]string{one("key: a, operator: Exists"), one("key: a, operator: DoesNotExist")}
		all[prefix+"matchExpressions[].values[]"] = [2]string{one("key: a, operator: In, values: [a]"), one("key: a, operator: In, values: [b]")}
	}
	selectors("match.kubernetes.namespaceSelector.", func(s string) string { return writes(", namespaceSelector: " + s) })
	selectors("tiers[].when.namespaceSelector.", func(s string) string {
		return writes("") + ", tiers: [{name: a, limit: 5, when: {namespaceSelector: " + s + "}}]"
	})
	tier := func(when string) string { return base + ", tiers: [{name: a, limit: 5, when: {" + when + "}}]" }
	for field, change := range map[string][2]string{
		"cidrs[]": {"cidrs: [10.0.0.0/8]", "cidrs: [11.0.0.0/8]"}, "expression": {"expression: 'request.path == \"/a\"'", "expression: 'request.path == \"/b\"'"},
		"groups[]": {"groups: [a]", "groups: [b]"}, "identifiers[]": {"identifiers: [a]", "identifiers: [b]"},
		"header.name": {"header: {name: x-a, value: a}", "header: {name: x-b, value: a}"}, "header.value": {"header: {name: x-a, value: a}", "header: {name: x-a, value: b}"},
		"header.type":   {"header: {name: x-a, value: a}", "header: {name: x-a, value: a, type: RegularExpression}"},
		"header.invert": {"header: {name: x-a, value: a}", "header: {name: x-a, value: a, invert: true}"},
	} {
		all["tiers[].when."+field] = [2]string{tier(change[0]), tier(change[1])}
	}
	return all
}

// leaves returns the fields of a policy that have no fields of their own.
func leaves(path string, f structure.Field) (all []string) {
	for _, name := range f.Names() {
		child, _ := f.Child(name)
		all = append(all, leaves(strings.TrimPrefix(path+"."+name, "."), child)...)
	}
	if item, isList := f.Child("0"); isList {
		return leaves(path+"[]", item)
	}
	if value, isMap := f.Lookup("any"); isMap && len(f.Names()) == 0 {
		return leaves(path+"{}", value)
	}
	if len(all) == 0 {
		return []string{path}
	}
	return all
}

var place = regexp.MustCompile(`\[[^\]]*\]| \(order\)`)

// A change of each field of the API is mentioned, in both directions, with opposite effects.
func TestCompare_MentionsEveryField(t *testing.T) {
	kind, _ := structure.Kind("ClusterRateLimitPolicy")
	spec, _ := kind.Lookup("spec")
	all := examples()
	opposite := map[policydiff.Effect]policydiff.Effect{
		policydiff.Stricter: policydiff.Looser, policydiff.Looser: policydiff.Stricter, policydiff.Same: policydiff.Same, policydiff.Different: policydiff.Different,
	}
	for _, field := range leaves("", spec) {
		if field == "targetRefs[].group" { // it has one possible value
			continue
		}
		example, has := all[field]
		if !has {
			t.Errorf("the test has no example for spec.%s: add two specs that differ in it", field)
			continue
		}
		policy := func(spec string) string {
			kind, name := "RateLimitPolicy", "{name: a, namespace: shop}"
			if strings.HasPrefix(field, "domains") || field == "precedence" || field == "targetRefs[].namespace" {
				kind, name = "ClusterRateLimitPolicy", "{name: a}"
			}
			return "apiVersion: weir.dev/v1alpha1\nkind: " + kind + "\nmetadata: " + name + "\nspec: {" + spec + "}\n"
		}
		there, back := compare(t, policy(example[0]), policy(example[1])), compare(t, policy(example[1]), policy(example[0]))
		if len(there.Policies) != 1 || len(back.Policies) != 1 {
			t.Errorf("spec.%s: a change is not mentioned: %d and %d policies differ\n%s\n%s", field, len(there.Policies), len(back.Policies), example[0], example[1])
			continue
		}
		if one, other := there.Policies[0].Effect, back.Policies[0].Effect; opposite[one] != other {
			t.Errorf("spec.%s: %s, and in the other direction %s\n%s\n%s", field, one, other, example[0], example[1])
		}
		want := "spec." + strings.NewReplacer("[]", "", "{}", ".team").Replace(field)
		for _, d := range []*policydiff.Diff{there, back} {
			if !slices.ContainsFunc(d.Policies[0].Changes, func(c policydiff.Change) bool {
				at := place.ReplaceAllString(c.Field, "")
				return (at == want || strings.HasPrefix(want, at+".") && at != "spec") && c.From != c.To
			}) {
				t.Errorf("spec.%s: a change is not mentioned: %+v", field, d.Policies[0].Changes)
			}
		}
	}
}
