package structure_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/policyfile/structure"
)

func TestAdmit_NamesTheFieldTheBoundAndTheValue(t *testing.T) {
	long := strings.Repeat("g", 80)
	for given, want := range map[string][]string{
		`{metadata: {name: a}, spec: {axis: User, limit: 1, window: 1m}}`:               nil,
		`{metadata: {name: a}, spec: {axis: User}, status: {conditions: [], newer: 1}}`: nil,
		`{metadata: {name: a}, spec: {axis: User}, status: 3}`:                          {"status: must be of type object, and is the integer 3"},
		`{metadata: {name: a}, spec: {axis: Users, limit: -1}, data: 1}`: {
			"data: unknown field",
			"spec.axis: must be IP, Tenant, User, APIKey, Endpoint, Namespace, ServiceAccount or Custom, and is \"Users\"",
			"spec.limit: must be at least 0, and is -1",
		},
		`{metadata: {name: a, labels: {"a b": x}, colour: blue}, spec: {axis: User, limit: "1", limt: 2}}`: {
			`metadata.colour: unknown field`,
			`metadata.labels: "a b" is not a key of a label: it must be a name of at most 63 letters, digits, dots, hyphens and underscores such as team, ` +
				`or a DNS name, a slash and a name, such as example.com/team`,
			`spec.limit: must be of type integer, and is the string "1"`,
			`spec.limt: unknown field`,
		},
		`{metadata: {name: A}}`: {
			`metadata.name: "A" must be lower-case letters, digits and hyphens, and begin and end with a letter or digit`, "spec.axis: is required",
		},
		`{spec: {axis: User, match: {http: {methods: [GET, GET], hosts: []}}, counterName: null}}`: {
			`metadata: must be an object with a name, and is null`,
			`spec.match.http.hosts: must have at least 1 items, and has 0`,
			`spec.match.http.methods[1]: the list must not have "GET" twice`,
		},
		`{metadata: {name: a}, spec: {axis: User, tiers: [{name: a, when: {groups: [` + long + `1, ` + long + `2, ` + long + `1]}}]}}`: {
			`spec.tiers[0].when.groups[2]: the list must not have "` + long[:63] + `… twice`,
		},
		`{metadata: {name: a}, spec: {axis: IP, tiers: [{name: a, when: {groups: [a]}}, {name: a, when: {groups: [b]}}], denial: {status: 200, contentType: ""}}}`: {
			"spec.denial.contentType: must have at least 1 characters, and has 0",
			"spec.denial.status: must be 402, 403, 404, 429 or 503, and is 200",
		},
	} {
		text, err := yaml.YAMLToJSON([]byte(given))
		if err != nil {
			t.Fatal(err)
		}
		var content map[string]any
		if err := json.UnmarshalCaseSensitivePreserveInts(text, &content); err != nil {
			t.Fatal(err)
		}
		var got []string
		structure.Schema{}.Admit("RateLimitPolicy", content, func(field, message string) { got = append(got, field+": "+message) })
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", given, diff)
		}
	}
}
