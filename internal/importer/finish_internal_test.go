package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
)

func loader(t *testing.T) *policyfile.Loader {
	t.Helper()
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	l := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	return l
}

// policyAt returns a policy from a line of the file f.
func policyAt(line int, domain string, units int64) Policy {
	return Policy{
		Place: Place{"f", line}, Domain: domain, Path: []string{fmt.Sprint("p", line)},
		Spec: v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(units), Window: "1m"},
	}
}

// Each invalid policy is left out, and reported at the place that it comes from.
func TestFinish_ReportsInvalidPoliciesAtTheirPlaces(t *testing.T) {
	r := Result{Policies: []Policy{
		policyAt(1, "shop", 5), policyAt(2, "shop", -1), policyAt(3, "Not_A_Label", 5), policyAt(4, "blog", -1), policyAt(5, "shop", 7),
	}}
	outputs, err := r.Finish(loader(t))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, o := range outputs {
		files = append(files, fmt.Sprintf("%s: %d", o.Name, strings.Count(string(o.Content), "kind:")))
	}
	if diff := cmp.Diff([]string{"shop.yaml: 2", "cluster.yaml: 1"}, files); diff != "" {
		t.Error(diff)
	}
	if cluster := string(outputs[len(outputs)-1].Content); !strings.Contains(cluster, "domains:\n  - Not_A_Label\n") {
		t.Errorf("the cluster policy is not limited to its domain:\n%s", cluster)
	}
	var lines []int
	for _, f := range r.Findings {
		lines = append(lines, f.Line)
		if !strings.Contains(f.String(), "limit") {
			t.Errorf("finding %s, want one about the limit", f)
		}
	}
	if diff := cmp.Diff([]int{2, 4}, lines); diff != "" {
		t.Errorf("lines of findings: %s", diff)
	}
}

// A policy over the default budget of a Limiter is kept, with a note at its place.
func TestFinish_NotesThePoliciesOverTheDefaultBudget(t *testing.T) {
	var r Result
	const budget = 1000
	for i := range budget + 2 {
		r.Policies = append(r.Policies, policyAt(i+1, "shop", 5))
	}
	if _, err := r.Finish(loader(t)); err != nil || len(r.Policies) != budget+2 {
		t.Fatalf("%d policies, %v", len(r.Policies), err)
	}
	if len(r.Findings) != 2 || r.Count(Note) != 2 {
		t.Fatalf("%v, want two notes", r.Findings)
	}
	for i, line := range []int{998, 999} { // the last ones by name
		if f := r.Findings[i]; f.Line != line || !strings.Contains(f.String(), "with the default budget") {
			t.Errorf("%s, want a note in line %d", f, line)
		}
	}
}

// weir lint warns about fixed windows. The imported ones count as those of the source do, so that weir lint --strict accepts what an import writes.
func TestFinish_SuppressesTheWarningAboutWindowsOfTheSource(t *testing.T) {
	fixed, other := policyAt(1, "shop", 5), policyAt(2, "shop", 5)
	fixed.Spec.Algorithm = v1alpha1.FixedWindow
	other.Spec.Axis = v1alpha1.AxisUser
	r := Result{Policies: []Policy{fixed, other}}
	outputs, err := r.Finish(loader(t))
	if err != nil {
		t.Fatal(err)
	}
	const annotation = "  annotations:\n    ignore.lint.weir.dev/window-boundary: The windows are those of the imported configuration.\n  name: p1\n"
	if text := string(outputs[0].Content); !strings.Contains(text, annotation) || strings.Count(text, "annotations") != 1 {
		t.Error(text)
	}
	compiled := loader(t).Compile([]policyfile.File{{Name: "f", Content: outputs[0].Content}})
	if found := compiled.Findings(); len(found.Warnings) != 0 || len(found.Suppressed) != 1 {
		t.Errorf("%v, suppressed %v", found.Warnings, found.Suppressed)
	}
}

func TestSlug_KeepsAllLettersAndDigits(t *testing.T) {
	if got := slug("AZ az09"); got != "az-az09" {
		t.Errorf("%q", got)
	}
}
