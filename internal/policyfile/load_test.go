package policyfile_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter/rules"
)

var update = flag.Bool("update", false, "update the golden files")

func TestLoad_ReportsProblemsOfInvalidFiles(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	loader := newLoader(t)
	for _, input := range inputs {
		t.Run(filepath.Base(input), func(t *testing.T) {
			result, err := loader.Load(nil, input)
			if err != nil {
				t.Fatal(err)
			}
			got := report(result)
			golden := strings.TrimSuffix(input, ".yaml") + ".lint"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got); run go test -update to update it:\n%s", golden, diff)
			}
		})
	}
}

// report returns the content of a golden file: the problems, the warnings, the skipped objects, then the compiled rules.
func report(result policyfile.Result) string {
	var b strings.Builder
	for _, problem := range result.Problems {
		b.WriteString(problem.String() + "\n")
	}
	for _, warning := range result.Warnings() {
		b.WriteString("warning " + warning.String() + "\n")
	}
	for _, skipped := range result.Skipped {
		b.WriteString("skipped " + skipped.APIVersion + " " + skipped.Kind + "\n")
	}
	for _, rule := range result.Rules.Rules {
		b.WriteString("rule " + rule.Policy + "\n")
	}
	return b.String()
}

func TestLoad_SkipsAKustomizationWithoutKind(t *testing.T) {
	for name, want := range map[string]struct{ skipped, problems int }{
		"base/kustomization.yaml": {1, 0}, "Kustomization": {1, 0}, "base/kustomizations.yaml": {0, 1},
	} {
		result := newLoader(t).Compile([]policyfile.File{{Name: name, Content: []byte("resources: [policy.yaml]\n")}})
		if len(result.Skipped) != want.skipped || len(result.Problems) != want.problems {
			t.Errorf("%s: skipped %v, problems %v", name, result.Skipped, result.Problems)
		}
		for _, s := range result.Skipped {
			if s.Kind != "Kustomization" {
				t.Errorf("%s: skipped %+v", name, s)
			}
		}
	}
	result := newLoader(t).Compile([]policyfile.File{{Name: "kustomization.yaml", Content: []byte("apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\n")}})
	if len(result.Problems) == 0 || result.Policies != 1 {
		t.Errorf("a policy in a file of this name: %+v", result)
	}
}

func TestLoad_AcceptsTheSamples(t *testing.T) {
	result, err := newLoader(t).Load(nil, "../../config/samples")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range result.Problems {
		t.Error(problem)
	}
	compiled := 0
	for range result.Rules.Policies() {
		compiled++
	}
	if result.Policies == 0 || compiled != result.Policies || len(result.Rules.Rules) == compiled {
		t.Errorf("%d policies, of which one has several rates: %d have rules, %d rules", result.Policies, compiled, len(result.Rules.Rules))
	}
}

// Files have no status, so the routes of a Gateway are unknown: a policy of the platform on its Gateway is valid there, as one of a team is.
func TestWarnings_APolicyOfAGatewayIsValidWithoutItsRoutes(t *testing.T) {
	const gateway = "{group: gateway.networking.k8s.io, kind: Gateway, name: public}"
	result := newLoader(t).Compile([]policyfile.File{{Name: "a.yaml", Content: []byte(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: public, namespace: infra}
spec: {axis: IP, limit: 5, window: 1m, targetRefs: [` + gateway + `]}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: replacing, namespace: infra}
spec: {axis: User, limit: 5, window: 1m, replaces: [default], targetRefs: [` + gateway + `]}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: checkout, namespace: shop}
spec: {axis: IP, limit: 9, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: checkout}]}
`)}})
	if len(result.Problems) > 0 || result.Policies != 3 || len(result.Rules.Rules) != 3 {
		t.Errorf("%d policies, %d rules, problems %v", result.Policies, len(result.Rules.Rules), result.Problems)
	}
	if w := result.Warnings(); len(w) != 1 || w[0].Line != 13 || !strings.Contains(w[0].Message, "has no effect for routes of other namespaces than infra") {
		t.Errorf("warnings %v", w)
	}
}

func TestWarnings_NameThePoliciesOverTheDefaultBudget(t *testing.T) {
	var content strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&content, "---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: p%04d, namespace: shop}\n"+
			"spec: {axis: Tenant, limit: %d, window: 1m, match: {http: {hosts: [p%d.example]}}}\n", i, i+1, i)
	}
	result := newLoader(t).Compile([]policyfile.File{{Name: "a.yaml", Content: []byte(content.String())}})
	var over []string
	for _, w := range result.Warnings() {
		if strings.Contains(w.String(), "policy budget") {
			over = append(over, w.String())
		}
	}
	const want = "p1000: spec: with the default budget: over the policy budget of the Limiter: this policy needs 1 rules, and the older policies of " +
		"namespace shop leave less of 1000: shorten or delete policies, or raise spec.policyBudget.perNamespace.rules of the Limiter"
	if len(result.Problems) != 0 || len(over) != 1 || !strings.HasSuffix(over[0], want) {
		t.Errorf("problems %v, warnings %q, want one that ends with %q", result.Problems, over, want)
	}
}

func TestLoad_CompilesTheDefaultsOfTheAPI(t *testing.T) {
	result := newLoader(t).Compile([]policyfile.File{{Name: "a.yaml", Content: []byte(`
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: search}
spec:
  axis: Tenant
  limit: 100
  window: 1d
  match: {http: {paths: [{value: /v1/search/}], headers: [{name: X-Plan, value: free}]}}
status: {observedGeneration: three}  # belongs to the server, and is ignored
`)}})
	want := rules.Set{Rules: []rules.Rule{{
		Policy: "default/search", Domain: "default", Axis: "Tenant",
		Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}, Fallbacks: []rules.Identifier{{From: rules.FromClientIP}},
		Match: rules.Match{
			Paths:   []rules.PathMatch{{Type: rules.PathPrefix, Value: "/v1/search"}},
			Headers: []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-plan", Value: "free"}},
		},
		Algorithm: "SlidingWindowCounter", Units: 100, WindowSeconds: 86400,
	}}}
	if diff := cmp.Diff(want, result.Rules); diff != "" || len(result.Problems) > 0 {
		t.Errorf("problems %v, rules (-want +got):\n%s", result.Problems, diff)
	}
}

func TestLoad_KeepsTheFirstOfTwoPoliciesWithOneName(t *testing.T) {
	policy := func(limit string) []byte {
		return []byte("apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\n" +
			"spec: {axis: IP, window: 1m, limit: " + limit + "}\n")
	}
	for name, tc := range map[string]struct {
		first, second string
		units         []int64
		problems      []string
	}{
		"the problem of the second policy names the first": {"1", "2", []int64{1}, []string{
			"b.yaml:3: shop/a: metadata.name: already defined at a.yaml:3; this policy is ignored",
		}},
		"an invalid policy also reserves its name": {"-1", "2", nil, []string{
			"a.yaml:4: shop/a: spec.limit: Invalid value: -1: spec.limit in body should be greater than or equal to 0",
			"b.yaml:3: shop/a: metadata.name: already defined at a.yaml:3; this policy is ignored",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			result := newLoader(t).Compile([]policyfile.File{
				{Name: "a.yaml", Content: policy(tc.first)}, {Name: "b.yaml", Content: policy(tc.second)},
			})
			var problems []string
			for _, p := range result.Problems {
				problems = append(problems, p.String())
			}
			var units []int64
			for _, r := range result.Rules.Rules {
				units = append(units, r.Units)
			}
			if diff := cmp.Diff(tc.problems, problems) + cmp.Diff(tc.units, units); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func newLoader(t testing.TB) *policyfile.Loader {
	t.Helper()
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	return loader
}

// FuzzCompile compiles a file with any text. It may return rules and problems. Each problem must have a valid line.
func FuzzCompile(f *testing.F) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, input := range inputs {
		content, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		for document := range bytes.SplitSeq(content, []byte("\n---\n")) { // a whole file takes a hundred times as long
			f.Add(document)
		}
	}
	f.Add([]byte("&a [*a]"))
	f.Add([]byte("? {a: b}\n: c"))
	f.Add([]byte("<<: 1"))
	loader := newLoader(f)
	f.Fuzz(func(t *testing.T, content []byte) {
		result := loader.Compile([]policyfile.File{{Name: "fuzz.yaml", Content: content}})
		last := bytes.Count(content, []byte("\n")) + bytes.Count(content, []byte("\r")) + 1 // YAML treats both as line breaks
		for _, p := range result.Problems {
			if p.Line < 1 || p.Line > last+1 || p.Message == "" {
				t.Errorf("the file has %d lines, got a problem at %+v", last, p)
			}
		}
		if len(result.Rules.Rules) > result.Policies {
			t.Errorf("%d policies compiled to %d rules", result.Policies, len(result.Rules.Rules))
		}
	})
}
