package crd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestSamplesApplyAndApplyAgainWithoutChange(t *testing.T) {
	n := newNamespace(t)
	dir := repositoryPath(t, "config", "samples")
	apply := func() []string {
		n.kubectl(t, "apply", "--server-side", "--validate=strict", "-k", dir)
		versions := n.kubectl(t, "get", "ratelimitpolicies", "-n", "shop", "-o", `jsonpath={range .items[*]}{.metadata.name}@{.metadata.resourceVersion}{"\n"}{end}`)
		return strings.Fields(versions)
	}
	apply() // creation leaves status's default to the reader; the first update stores it
	before, after := apply(), apply()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("applied again (-before +after):\n%s", diff)
	}
	var applied []string
	for _, line := range after {
		name, _, _ := strings.Cut(line, "@")
		applied = append(applied, name+".yaml")
	}
	if diff := cmp.Diff(policyFiles(t, dir), applied); diff != "" {
		t.Errorf("policies (-files, named like their policy +applied by the kustomization):\n%s", diff)
	}
}

func TestSamplesCoverTheProfilesOfTheField(t *testing.T) {
	type profile struct {
		Axis        v1alpha1.Axis
		Limit       int64
		Window      v1alpha1.Window
		Enforcement v1alpha1.Enforcement
	}
	want := map[string]profile{
		"public-ip":          {Axis: v1alpha1.AxisIP, Limit: 120, Window: "1m"},
		"tenant-free":        {Axis: v1alpha1.AxisTenant, Limit: 100, Window: "24h"},
		"tenant-paid":        {Axis: v1alpha1.AxisTenant, Limit: 10000, Window: "1d"},
		"expensive-endpoint": {Axis: v1alpha1.AxisTenant, Limit: 30, Window: "1m"},
		"light-endpoint":     {Axis: v1alpha1.AxisTenant, Limit: 300, Window: "1m"},
		"api-key":            {Axis: v1alpha1.AxisAPIKey, Limit: 600, Window: "1m"},
		"shadow":             {Axis: v1alpha1.AxisTenant, Limit: 60, Window: "1m", Enforcement: v1alpha1.EnforcementShadow},
	}
	got := map[string]profile{}
	for _, p := range samplePolicies(t) {
		got[p.Name] = profile{p.Spec.Axis, p.Spec.Limit, p.Spec.Window, p.Spec.Enforcement}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestSamplesTogetherTreatEachKindOfClientSensibly(t *testing.T) {
	set, problems := compile.Compile(samplePolicies(t), compile.DefaultIdentity())
	if len(problems) > 0 {
		t.Fatalf("the samples do not compile: %v", problems)
	}
	index, err := rules.NewIndex(set, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method, path string
		headers            map[string]string
		want               []string
	}{
		{"anybody from the internet meets the limit by address", "GET", "/", nil, []string{"public-ip"}},
		{
			"a free tenant's search is within the plan's 100 before the endpoint's 300", "GET", "/v1/search",
			map[string]string{"x-tenant-id": "acme", "x-plan": "free"},
			[]string{"light-endpoint", "shadow", "tenant-free"},
		},
		{
			"a paid tenant's search meets the endpoint's 300 first", "GET", "/v1/search",
			map[string]string{"x-tenant-id": "acme", "x-plan": "paid"},
			[]string{"light-endpoint", "shadow", "tenant-paid"},
		},
		{
			"a preflight is not counted as a search", "OPTIONS", "/v1/search",
			map[string]string{"x-tenant-id": "acme"},
			[]string{"shadow"},
		},
		{
			"a paid tenant's report meets the endpoint's 30 first", "POST", "/v1/reports/2026",
			map[string]string{"x-tenant-id": "acme", "x-plan": "paid"},
			[]string{"expensive-endpoint", "shadow", "tenant-paid"},
		},
		{
			"a program with a key is not held to the limit by address", "GET", "/v1/items",
			map[string]string{"x-api-key": "k"},
			[]string{"api-key"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			matched := index.Match(nil, &rules.Request{Domain: "shop", Method: c.method, Path: c.path, Headers: c.headers})
			var got []string
			for _, m := range matched {
				got = append(got, strings.TrimPrefix(m.Rule.Policy, "shop/"))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

// samplePolicies reads the samples as they stand in their files, without the API server's defaults.
func samplePolicies(t *testing.T) []v1alpha1.RateLimitPolicy {
	t.Helper()
	dir := repositoryPath(t, "config", "samples")
	var policies []v1alpha1.RateLimitPolicy
	for _, file := range policyFiles(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(data), "# ") {
			t.Errorf("%s does not begin with a word to its reader", file)
		}
		var p v1alpha1.RateLimitPolicy
		if err := yaml.UnmarshalStrict(data, &p); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		policies = append(policies, p)
	}
	return policies
}

// policyFiles are the files of the samples that hold a policy, in the order of their names.
func policyFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		if !slices.Contains([]string{"00-namespace.yaml", "kustomization.yaml"}, e.Name()) {
			files = append(files, e.Name())
		}
	}
	return files
}
