package policyfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/policyfile"
)

// An API server reports unknown fields alone, so that these are not in testdata: values of a wrong type whose fields are unknown, next to other mistakes. The
// fields in such a value are not reported, and the message has the value as it is written.
func TestCompile_NamesTheValueAndWhatToWrite(t *testing.T) {
	for spec, want := range map[string][]string{
		"{axis: {type: IP}, limit: {value: 10}, window: {seconds: 60}}": {
			`spec.axis: must be of type string, and is the object {"type":"IP"}; write a single value`,
			`spec.limit: must be of type integer, and is the object {"value":10}; write a single value`,
			`spec.window: must be of type string, and is the object {"seconds":60}; write a single value`,
		},
		"{axis: IP, limit: 1, window: 1m, match: [{http: {methods: [GET]}}]}": {
			`spec.match: must be of type object, and is the array [{"http":{"methods":["GET"]}}]; write an object with descriptors, http or kubernetes`,
		},
		"{axis: IP, limit: 1, window: 1m, tiers: {gold: {limit: 5}}, denial: {headers: {X-A: b}}}": {
			`spec.tiers: must be of type array, and is the object {"gold":{"limit":5}}; write tiers: [{name: gold, limit: 5}]`,
			`spec.denial.headers: must be of type array, and is the object {"X-A":"b"}; write headers: [{name: X-A, value: b}]`,
		},
		"{axis: ClientIP, limit: '{{ .Values.limit }}', window: 1m, onFailure: Local, precedence: Default}": {
			`spec.axis: Unsupported value: "ClientIP": supported values: "IP", "Tenant", "User", "APIKey", "Endpoint", "Namespace", "ServiceAccount", "Custom"; did you mean IP?`,
			`spec.limit: must be of type integer, and is the string "{{ .Values.limit }}"; this is a template; check its output`,
			`spec.onFailure: unknown field; did you mean onStoreFailure?`,
			`spec.precedence: unknown field; only a ClusterRateLimitPolicy has it`,
		},
		"{axis: IP, limit: 1, window: 1m, match: {http: {paths: [{prefix: /v1}, {type: Prefix, value: /v1}]}}}": {
			`spec.match.http.paths[0].value: Required value`,
			`spec.match.http.paths[0].prefix: unknown field; the fields are type, value`,
			`spec.match.http.paths[1].type: Unsupported value: "Prefix": supported values: "Exact", "PathPrefix", "RegularExpression"; did you mean PathPrefix?`,
		},
		"{axis: IP, limit: 1, window: 1m, match: {http: {paths: [{value: v1}]}}}": {
			`spec.match.http.paths[0].value: Invalid value: "v1": a path must begin with a slash and must not have a query, a fragment or spaces`,
		},
		"{axis: IP, limit: 1:30, window: 1m, enforcement: off, match: {http: {methods: [on], headers: [{name: a, value: no}, {name: b, value: 0123}]}}}": {
			`spec.limit: must be of type integer, and is the string "1:30"`,
			`spec.enforcement: must be of type string, and is the boolean false, as YAML reads off`,
			`spec.match.http.methods[0]: must be of type string, and is the boolean true, as YAML reads on`,
			`spec.match.http.headers[0].value: must be of type string, and is the boolean false, as YAML reads no; write value: "no"`,
			`spec.match.http.headers[1].value: must be of type string, and is the integer 83, as YAML reads 0123; write value: "0123"`,
		},
		"{axis: IP, limit: 1, window: 1:30}": {
			`spec.window: Invalid value: "1:30": window must be from 1s to 8760h, in whole hours, minutes and seconds (90s, 1h30m, 24h) or in days alone (1d to 365d); write window: 1m30s, or window: 1h30m`,
		},
		"[{axis: IP}]": {`spec: must be of type object, and is the array [{"axis":"IP"}]; write an object with algorithm, axis, burst, cost, counterName, denial, enforcement, identifier or 13 others`},
	} {
		result := newLoader(t).Compile([]policyfile.File{{Name: "a.yaml", Content: []byte(
			"apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec: " + spec + "\n")}})
		var got []string
		for i := range result.Problems {
			got = append(got, strings.TrimPrefix(result.Problems[i].String(), "a.yaml:4: shop/a: "))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
}

// JSON of other programs is skipped, and no JSON that is about Weir.
func TestCompile_SkipsOnlyJSONOfOthers(t *testing.T) {
	const policy = `{"apiVersion": "weir.dev/v1alpha1", "kind": "RateLimitPolicy", "metadata": {"name": "a", "namespace": "shop"}, "spec": {"axis": "IP", "limit": 1, "window": "1m"}}`
	for text, want := range map[string]string{
		`{"name": "web"}`: "", `[1, 2]`: "", policy: "",
		"[" + policy + "]": "a.json:1: a document must be an object with apiVersion and kind, and is the array ",
		strings.Replace(policy, "apiVersion", "apiversion", 1): "a.json:1: shop/a: an object must have apiVersion and kind; did you mean apiVersion in place of apiversion?",
		strings.NewReplacer("apiVersion", "apiversion", "kind", "Kind").Replace(policy): "a.json:1: shop/a: an object must have apiVersion and kind; did you mean apiVersion in place of apiversion?; " +
			"did you mean kind in place of Kind?",
		"// a comment\n" + policy: "a.json:2: mapping values are not allowed in this context",
		"// weir.dev\n":           "a.json:1: a document must be an object with apiVersion and kind, and is the string ",
		policy + "\n" + policy:    "a.json:2: something follows the object; write one object in a file, or a List with the objects as items",
		policy + " }":             "a.json:1: something follows the object",
	} {
		result := newLoader(t).Compile([]policyfile.File{{Name: "a.json", Content: []byte(text)}})
		switch {
		case want == "" && len(result.Problems) > 0, want != "" && (len(result.Problems) != 1 || !strings.HasPrefix(result.Problems[0].String(), want)):
			t.Errorf("%s\ngot %v\nwant %s", text, result.Problems, want)
		}
	}
}
