package policyfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	k8sjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/structure"
)

// agree fails if the two schemas do not accept the same policies of a file, or compile them to different rules. It returns whether all are accepted.
func agree(t interface {
	Errorf(format string, args ...any)
}, api, small *policyfile.Loader, file policyfile.File,
) (accepted bool) {
	want, got := api.Compile([]policyfile.File{file}), small.Compile([]policyfile.File{file})
	if (len(want.Problems) == 0) != (len(got.Problems) == 0) {
		t.Errorf("with the schema of the API:\n%v\nwith the structure:\n%v\nfor %s", want.Problems, got.Problems, file.Content)
	}
	if diff := cmp.Diff(want.Rules, got.Rules); diff != "" {
		t.Errorf("%s: rules with the schema of the API (-) and with the structure (+): %s\n%s", file.Name, diff, file.Content)
	}
	return len(want.Problems) == 0
}

func loaders(t testing.TB) (api, small *policyfile.Loader) {
	return newLoader(t), policyfile.NewLoader(compile.DefaultIdentity(), structure.Schema{})
}

func documentsOf(t *testing.T, paths ...string) (files []policyfile.File) {
	t.Helper()
	read, err := policyfile.Read(nil, paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range read {
		for i, document := range bytes.Split(file.Content, []byte("\n---")) {
			if _, rest, found := bytes.Cut(document, []byte("\n")); found && i > 0 {
				document = rest
			}
			if bytes.Contains(document, []byte("kind: Limiter")) { // package structure leaves those to others
				continue
			}
			files = append(files, policyfile.File{Name: fmt.Sprintf("%s, document %d", file.Name, i), Content: document})
		}
	}
	return files
}

func TestStructure_AgreesWithTheSchemaOfTheAPIOnFiles(t *testing.T) {
	api, small := loaders(t)
	rejected, files := 0, documentsOf(t, "testdata", "../../config/samples")
	for _, file := range files {
		if !agree(t, api, small, file) {
			rejected++
		}
	}
	if rejected < 30 || len(files)-rejected < 30 {
		t.Errorf("%d of %d documents are rejected: the test has too few of one kind", rejected, len(files))
	}
}

// TestStructure_AgreesWithTheSchemaOfTheAPIOnMetadata has metadata that Weir does not read: an API server validates it too.
func TestStructure_AgreesWithTheSchemaOfTheAPIOnMetadata(t *testing.T) {
	api, small := loaders(t)
	long, owner := strings.Repeat("a", 300), `{apiVersion: v1, kind: Pod, name: x, uid: "1"}`
	accepted := 0
	cases := []string{
		`labels: null`, `labels: {a: null}`, `labels: {a: true}`, `unknown: 1`, `unknown: null`,
		`annotations: null`, `annotations: {a: null, B/c: "x"}`, `annotations: {"a b": x}`, `annotations: {"A/b": x}`, `annotations: {a: 5}`, `annotations: 5`,
		`annotations: {a: "` + strings.Repeat("x", 256<<10-1) + `"}`, `annotations: {a: "` + strings.Repeat("x", 256<<10) + `"}`,
		`creationTimestamp: null`, `creationTimestamp: "2024-01-01T00:00:00Z"`, `creationTimestamp: "2024-01-01"`, `creationTimestamp: ""`, `creationTimestamp: 5`,
		`deletionTimestamp: x`, `deletionGracePeriodSeconds: -1`, `deletionGracePeriodSeconds: x`, `deletionGracePeriodSeconds: 1.5`,
		`finalizers: [a]`, `finalizers: [example.com/a]`, `finalizers: [a b]`, `finalizers: [null]`, `finalizers: a`,
		`generateName: a-`, `generateName: A_`, `generateName: "-"`, `generateName: ""`, `generateName: ` + long, `generateName: 5`,
		`generation: 0`, `generation: -1`, `generation: "1"`, `generation: 1.0`, `generation: 1e30`,
		`managedFields: []`, `managedFields: [{}]`, `managedFields: [null]`, `managedFields: [{operation: Apply, manager: a, time: null, fieldsV1: {f: {}}}]`,
		`managedFields: [{operation: Update, manager: "a\n"}]`, `managedFields: [{operation: Update, manager: ` + long + `}]`,
		`managedFields: [{operation: Update, subresource: ` + long + `}]`, `managedFields: [{operation: Other}]`, `managedFields: 5`,
		`managedFields: [{operation: Update, fieldsType: FieldsV1, fieldsV1: 5}]`, `managedFields: [{operation: Update, fieldsType: x}]`,
		`ownerReferences: [{}]`, `ownerReferences: [null]`, `ownerReferences: [` + owner + `]`, `ownerReferences: [{kind: "", apiVersion: v1, name: a, uid: b}]`,
		`ownerReferences: [{kind: A, apiVersion: a/b/c, name: a, uid: b}]`, `ownerReferences: [{kind: A, apiVersion: a/, name: a, uid: b}]`,
		`ownerReferences: [{kind: A, apiVersion: /a, name: a, uid: b}]`, `ownerReferences: [{kind: A, apiVersion: /, name: a, uid: b}]`,
		`ownerReferences: [{kind: Event, apiVersion: v1, name: a, uid: b}]`, `ownerReferences: [{kind: Event, apiVersion: events.k8s.io/v1, name: a, uid: b}]`,
		`ownerReferences: [` + strings.Repeat(`{apiVersion: v1, kind: Pod, name: x, uid: "1", controller: true},`, 2) + `]`,
		`ownerReferences: [{apiVersion: v1, kind: Pod, name: x, uid: "1", controller: 1}]`, `ownerReferences: [{apiVersion: v1, kind: Pod, name: x, uid: "1", more: 1}]`,
		`resourceVersion: 5`, `resourceVersion: ""`, `selfLink: 5`, `uid: 5`, `uid: a`,
	}
	for _, metadata := range cases {
		file := policyfile.File{Name: "metadata", Content: []byte("apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {namespace: shop, name: a, " +
			metadata + "}\nspec: {axis: IP, limit: 1, window: 1m}")}
		if agree(t, api, small, file) {
			accepted++
		}
	}
	if accepted < 20 || len(cases)-accepted < 20 {
		t.Errorf("%d of %d are accepted: the test has too few of one kind", accepted, len(cases))
	}
}

// TestStructure_AgreesWithTheSchemaOfTheAPIOnMutants changes values of valid policies at random.
func TestStructure_AgreesWithTheSchemaOfTheAPIOnMutants(t *testing.T) {
	api, small := loaders(t)
	var valid [][]byte
	for _, file := range documentsOf(t, "../../config/samples", "testdata") {
		if strings.Contains(string(file.Content), "RateLimitPolicy") && len(api.Compile([]policyfile.File{file}).Problems) == 0 {
			content, err := yaml.YAMLToJSON(file.Content)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(content, []byte(`"items"`)) {
				valid = append(valid, content)
			}
		}
	}
	if len(valid) < 20 {
		t.Fatalf("only %d valid policies", len(valid))
	}
	rejected, total := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var policy map[string]any
		if err := k8sjson.UnmarshalCaseSensitivePreserveInts(rapid.SampledFrom(valid).Draw(t, "policy"), &policy); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			mutate(t, policy)
		}
		content, err := json.Marshal(policy)
		if err != nil {
			t.Fatal(err)
		}
		total++
		if !agree(t, api, small, policyfile.File{Name: "mutant", Content: content}) {
			rejected++
		}
	})
	if total > 50 && (rejected*5 < total || rejected == total) {
		t.Errorf("%d of %d mutants are rejected", rejected, total)
	}
}

const aLimiter = "apiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {namespace: weir-system, name: a%s}\nspec: {redis: {%s}%s}\n"

func TestStructure_RejectsLimitersThatTheAPIRejects(t *testing.T) {
	api, small := loaders(t)
	const address = `mode: Standalone, addresses: ["redis:6379"]`
	accepted := 0
	cases := [][3]string{
		{"", address, ""},
		{"", address, ", replicas: 3"},
		{"", address, ", podTemplate: {resources: {limits: {cpu: 1, memory: 1Gi}}}"},
		{"", address, `, tracing: {endpoint: "http://otel:4317"}`},
		{"", address, ", replicas: -4"},
		{"", address, ", replicas: two"},
		{"", address, ", replicas: 1.5"},
		{"", address, ", replica: 2"},
		{"", address + ", adresses: []", ""},
		{"", "addresses: 5", ""},
		{"", address, ", podTemplate: {resources: {limits: {cpu: 1.5}}}"},
		{"", address, ", podTemplate: {resources: {limits: {cpu: true}}}"},
		{"", address, ", podTemplate: {resources: {limits: {memory: 1 GB}}}"},
		{"", address, ", tracing: {endpoint: otel}"},
		{".b", address, ""},
		{strings.Repeat("a", 50), address, ""},
		{", labels: {a: 1}", address, ""},
	}
	for _, c := range cases {
		file := policyfile.File{Name: "limiter", Content: fmt.Appendf(nil, aLimiter, c[0], c[1], c[2])}
		if agree(t, api, small, file) {
			accepted++
		}
	}
	if accepted != 4 {
		t.Errorf("%d of %d are accepted, want 4", accepted, len(cases))
	}
}

// TestStructure_AcceptsLimitersThatTheAPIAccepts changes valid Limiters at random. The API also has rules about several fields of a Limiter.
func TestStructure_AcceptsLimitersThatTheAPIAccepts(t *testing.T) {
	api, small := loaders(t)
	var valid [][]byte
	read, err := policyfile.Read(nil, "../../config/samples", "testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range read {
		for document := range bytes.SplitSeq(file.Content, []byte("\n---")) {
			if !bytes.Contains(document, []byte("kind: Limiter")) || len(api.Compile([]policyfile.File{{Content: document}}).Problems) > 0 {
				continue
			}
			content, err := yaml.YAMLToJSON(document)
			if err != nil {
				t.Fatal(err)
			}
			valid = append(valid, content)
		}
	}
	if len(valid) < 3 {
		t.Fatalf("only %d valid Limiters", len(valid))
	}
	rapid.Check(t, func(t *rapid.T) {
		var object map[string]any
		if err := k8sjson.UnmarshalCaseSensitivePreserveInts(rapid.SampledFrom(valid).Draw(t, "limiter"), &object); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			mutate(t, object)
		}
		content, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		file := []policyfile.File{{Name: "mutant", Content: content}}
		if got := small.Compile(file).Problems; len(got) > 0 && len(api.Compile(file).Problems) == 0 {
			t.Errorf("the API accepts what the structure rejects: %v\n%s", got, content)
		}
	})
}

// mutate changes one value at any depth.
func mutate(t *rapid.T, policy map[string]any) {
	at := policy["spec"]
	if rapid.IntRange(0, 9).Draw(t, "in metadata") == 0 {
		at = policy["metadata"]
	}
	for {
		switch parent := at.(type) {
		case map[string]any:
			names := slices.Sorted(maps.Keys(parent))
			if len(names) == 0 || rapid.IntRange(0, 9).Draw(t, "new field") == 0 {
				parent[rapid.SampledFrom([]string{"limt", "limit", "burst", "tiers", "scope", "counterName", "unlimited"}).Draw(t, "field")] = odd(t, nil)
				return
			}
			name := rapid.SampledFrom(names).Draw(t, "name")
			if isLeaf(parent[name]) || rapid.IntRange(0, 3).Draw(t, "here") == 0 {
				if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
					delete(parent, name)
				} else {
					parent[name] = odd(t, parent[name])
				}
				return
			}
			at = parent[name]
		case []any:
			if len(parent) == 0 {
				return
			}
			i := rapid.IntRange(0, len(parent)-1).Draw(t, "index")
			if isLeaf(parent[i]) {
				parent[i] = odd(t, parent[i])
				return
			}
			at = parent[i]
		default:
			return
		}
	}
}

func isLeaf(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

// odd returns a value that is near to the given one, or of another type.
func odd(t *rapid.T, given any) any {
	choices := []any{
		nil, "", "a", "A", strings.Repeat("a", 64), strings.Repeat("a", 254), strings.Repeat("é", 1025), "*", "a/b", "1m", "90d", "1h1h", "Default",
		int64(-1), int64(0), int64(1), int64(1_000_000_001), int64(1) << 62, 1.5, 1e300, true,
		[]any{},
		map[string]any{},
		[]any{"a", "a"},
		[]any{strings.Repeat("a", 62) + ".b", strings.Repeat("a", 62) + ".c"},
		[]any{map[string]any{}},
		map[string]any{"name": "a"},
		[]any{nil},
		[]any{""},
	}
	switch given := given.(type) {
	case []any:
		if len(given) > 0 {
			many := make([]any, 300)
			for i := range many {
				many[i] = given[0]
			}
			choices = append(choices, append(slices.Clone(given), given[0]), many, given[:len(given)-1])
			if text, isText := given[0].(string); isText { // near to another, and not the same
				choices = append(choices, append(slices.Clone(given), text+strings.Repeat("a", 70), text+strings.Repeat("a", 69)+"b"))
			}
		}
	case string:
		choices = append(choices, given+"x", strings.ToUpper(given), strings.ToLower(given), " "+given, strings.TrimSuffix(given, "m"))
	case int64:
		choices = append(choices, given+1, -given, float64(given), strconv.FormatInt(given, 10))
	}
	return rapid.SampledFrom(choices).Draw(t, "value")
}
