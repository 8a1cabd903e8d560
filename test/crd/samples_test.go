package crd

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestSamples_ApplyTwiceWithoutChange(t *testing.T) {
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

func TestSamples_OfOtherKindsAreAccepted(t *testing.T) {
	n := newNamespace(t)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "weir-system"}}
	if err := n.Create(t.Context(), system); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for _, kind := range []string{"cluster", "limiter"} {
		dir := repositoryPath(t, "config", "samples", kind)
		out := n.kubectl(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", dir)
		if applied, files := strings.Count(out, "serverside-applied"), len(policyFiles(t, dir)); applied != files || files == 0 {
			t.Errorf("%s: %d files, and the kustomization applies\n%s", kind, files, out)
		}
	}
}

func TestSamples_OfTheClusterDoNotChangeOthers(t *testing.T) {
	loader, err := policyfile.NewLoader(compile.DefaultIdentity())
	if err != nil {
		t.Fatal(err)
	}
	result, err := loader.Load(nil, repositoryPath(t, "config", "samples"))
	if err != nil || len(result.Problems) > 0 {
		t.Fatal(err, result.Problems)
	}
	index, err := rules.NewIndex(result.Rules, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, domain, method, path string
		want                       []string
	}{
		{"the page of a shop", "shop", "GET", "/v1/search", nil},
		{"an attempt to log in there", "shop", "POST", "/login", []string{"cluster/login-attempts"}},
		{"an attempt to log in where nobody has a policy", "forum", "POST", "/login", []string{"cluster/login-attempts"}},
		{"a bill, for which nobody has a policy", "billing", "GET", "/", []string{"cluster/tenant-default"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, m := range index.Match(nil, &rules.Request{Domain: c.domain, Method: c.method, Path: c.path}) {
				if strings.HasPrefix(m.Rule.Policy, "cluster/") {
					got = append(got, m.Rule.Policy)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSamples_CoverCommonProfiles(t *testing.T) {
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
		"device-writes":      {Axis: v1alpha1.AxisCustom, Limit: 30, Window: "1m"},
		"envoy-login":        {Axis: v1alpha1.AxisIP, Limit: 5, Window: "1m"},
		"office-exempt":      {Axis: v1alpha1.AxisIP, Limit: 20, Window: "1m"},
		"query-cost":         {Axis: v1alpha1.AxisTenant, Limit: 1000, Window: "1m"},
		"tenant-plans":       {Axis: v1alpha1.AxisTenant, Limit: 100, Window: "24h"},
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

func TestSamples_LimitEachKindOfClient(t *testing.T) {
	index := sampleIndex(t)
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
		{
			"a free tenant meets the second version's plans alone", "GET", "/v2/items",
			map[string]string{"x-tenant-id": "acme"},
			[]string{"shadow", "tenant-plans"},
		},
		{
			"a query of a tenant costs what the gateway says", "POST", "/graphql",
			map[string]string{"x-tenant-id": "acme", "x-query-cost": "5"},
			[]string{"query-cost", "shadow"},
		},
		{
			"a device's write is counted", "PUT", "/v1/devices/7",
			map[string]string{"x-tenant-id": "acme", "x-user-id": "u"},
			[]string{"device-writes", "shadow"},
		},
		{
			"a device's read is not", "GET", "/v1/devices/7",
			map[string]string{"x-tenant-id": "acme", "x-user-id": "u"},
			[]string{"shadow"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, told := range samplesFor(index, &rules.Request{Method: c.method, Path: c.path, Headers: c.headers}) {
				got = append(got, told.Policy)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSamples_ApplyTiersCostsAndIdentifiers(t *testing.T) {
	index := sampleIndex(t)
	claims := func(tenant, plan string) map[string]any { return map[string]any{"tenant": tenant, "plan": plan} }
	login := func(value string) []rules.Descriptor {
		return []rules.Descriptor{{{Key: "generic_key", Value: value}, {Key: "remote_address", Value: "198.51.100.7"}}}
	}
	for _, c := range []struct {
		name    string
		request rules.Request
		want    told
	}{
		{
			"a tenant without a plan has the policy's limit",
			rules.Request{Path: "/v2", Claims: map[string]any{"tenant": "acme"}},
			told{Policy: "tenant-plans", Identifier: "acme", Units: 100, Cost: 1},
		},
		{
			"a paid tenant has the tier's",
			rules.Request{Path: "/v2", Claims: claims("acme", "paid")},
			told{Policy: "tenant-plans", Identifier: "acme", Tier: "paid", Units: 10000, Cost: 1},
		},
		{
			"the first tier counts, and the shop's own have no limit",
			rules.Request{Path: "/v2", Claims: claims("shop-web", "paid")},
			told{Policy: "tenant-plans", Identifier: "shop-web", Tier: "internal", Unlimited: true},
		},
		{
			"a query costs what the gateway says",
			rules.Request{Path: "/graphql", Headers: map[string]string{"x-tenant-id": "acme", "x-query-cost": "50"}},
			told{Policy: "query-cost", Identifier: "acme", Units: 1000, Cost: 50},
		},
		{
			"a query without a cost costs one",
			rules.Request{Path: "/graphql", Headers: map[string]string{"x-tenant-id": "acme"}},
			told{Policy: "query-cost", Identifier: "acme", Units: 1000, Cost: 1},
		},
		{
			"an expression names the device",
			rules.Request{Method: "PUT", Path: "/v1/devices", Headers: map[string]string{"x-user-id": "u", "x-device": "d"}},
			told{Policy: "device-writes", Identifier: "u/d", Units: 30, Cost: 1},
		},
		{
			"and says what counts without one",
			rules.Request{Method: "PUT", Path: "/v1/devices", Headers: map[string]string{"x-user-id": "u"}},
			told{Policy: "device-writes", Identifier: "u/unknown", Units: 30, Cost: 1},
		},
		{
			"a login that Envoy tells is counted by the address in the descriptor",
			rules.Request{Descriptors: login("login")},
			told{Policy: "envoy-login", Identifier: "198.51.100.7", Units: 5, Cost: 1},
		},
		{"what else Envoy tells is not", rules.Request{Descriptors: login("search")}, told{}},
		{
			"the administration is limited from anywhere",
			rules.Request{Path: "/admin", ClientIP: netip.MustParseAddr("198.51.100.7")},
			told{Policy: "office-exempt", Identifier: "198.51.100.7", Units: 20, Cost: 1},
		},
		{"but the office", rules.Request{Path: "/admin", ClientIP: netip.MustParseAddr("203.0.113.7")}, told{}},
		{"by IPv6 as well", rules.Request{Path: "/admin", ClientIP: netip.MustParseAddr("2001:db8:100::7")}, told{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := samplesFor(index, &c.request)
			all = slices.DeleteFunc(all, func(told told) bool { return told.Policy == "shadow" || told.Policy == "public-ip" })
			var got told
			if len(all) > 0 {
				got = all[0]
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(all) > 1 {
				t.Errorf("of %v (-want +got):\n%s", all, diff)
			}
		})
	}
}

// told is what a policy of the samples says of a request.
type told struct {
	Policy, Identifier, Tier string
	Unlimited                bool
	Units, Cost              int64
}

// samplesFor is what the samples say of a request of their domain, by policy.
func samplesFor(index *rules.Index, request *rules.Request) []told {
	request.Domain = "shop"
	var all []told
	for _, m := range index.Match(nil, request) {
		identifier := m.Identify(request)
		terms := m.Terms(request, identifier)
		one := told{Policy: strings.TrimPrefix(m.Rule.Policy, "shop/"), Identifier: identifier, Tier: terms.Tier, Unlimited: terms.Unlimited}
		if !terms.Unlimited {
			one.Units, one.Cost = terms.Limit.Units(), terms.Cost
		}
		all = append(all, one)
	}
	return all
}

func sampleIndex(t *testing.T) *rules.Index {
	t.Helper()
	set, problems := compile.Compile(samplePolicies(t), compile.DefaultIdentity())
	if len(problems) > 0 {
		t.Fatalf("the samples do not compile: %v", problems)
	}
	index, err := rules.NewIndex(set, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return index
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
		if !e.IsDir() && !slices.Contains([]string{"00-namespace.yaml", "kustomization.yaml"}, e.Name()) {
			files = append(files, e.Name())
		}
	}
	return files
}
