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
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestSamples_ApplyTwiceWithoutChange(t *testing.T) {
	n := newNamespace(t)
	dir := repositoryPath(t, "config", "samples")
	apply := func() []string {
		n.kubectl(t, "apply", "--server-side", "--validate=strict", "-k", dir)
		versions := n.kubectl(t, "get", "ratelimitpolicies", "-n", "shop", "-o", `jsonpath={range .items[*]}{.metadata.name}@{.metadata.resourceVersion}{"\n"}{end}`)
		return strings.Fields(versions)
	}
	apply() // creation does not store the default of status; the first update stores it
	before, after := apply(), apply()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("resource versions after the samples are applied again (-before +after):\n%s", diff)
	}
	var applied []string
	for _, line := range after {
		name, _, _ := strings.Cut(line, "@")
		applied = append(applied, name+".yaml")
	}
	if diff := cmp.Diff(policyFiles(t, dir), applied); diff != "" {
		t.Errorf("policies (-names of the files +policies that the kustomization applies):\n%s", diff)
	}
}

func TestSamples_OfOtherKindsAreAccepted(t *testing.T) {
	n := newNamespace(t)
	for _, name := range []string{"weir-system", "infra"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := n.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"cluster", "gateway", "limiter"} {
		dir := repositoryPath(t, "config", "samples", kind)
		out := n.kubectl(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", dir)
		if applied, files := strings.Count(out, "serverside-applied"), len(policyFiles(t, dir)); applied != files || files == 0 {
			t.Errorf("%s: want %d applied files, the output of kubectl apply is\n%s", kind, files, out)
		}
	}
}

func TestSamples_OfTheClusterDoNotChangeOthers(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(testHashKey()), schema)
	result, err := loader.Load(nil, repositoryPath(t, "config", "samples"))
	if err != nil || len(result.Problems) > 0 {
		t.Fatal(err, result.Problems)
	}
	index, err := matching.NewIndex(result.Rules, "", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, domain, method, path string
		want                       []string
	}{
		{"a page in a domain with policies of its own", "shop", "GET", "/v1/search", nil},
		{"a login in that domain", "shop", "POST", "/login", []string{"_cluster/login-attempts"}},
		{"a login in a domain without policies of its own", "forum", "POST", "/login", []string{"_cluster/login-attempts"}},
		{"another request in a domain without policies of its own", "billing", "GET", "/", []string{"_cluster/tenant-default"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, m := range index.Match(nil, &rules.Request{Domain: c.domain, Method: c.method, Path: c.path}) {
				if strings.HasPrefix(m.Rule.Policy, "_cluster/") {
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
		Window      v1alpha1.Duration
		Enforcement v1alpha1.Enforcement
	}
	want := map[string]profile{
		"public-ip":          {Axis: v1alpha1.AxisIP, Limit: 120, Window: "1m"},
		"tenant-free":        {Axis: v1alpha1.AxisTenant, Limit: 100, Window: "24h"},
		"tenant-paid":        {Axis: v1alpha1.AxisTenant, Limit: 10000, Window: "1d"},
		"expensive-endpoint": {Axis: v1alpha1.AxisTenant, Limit: 30, Window: "1m"},
		"light-endpoint":     {Axis: v1alpha1.AxisTenant, Limit: 300, Window: "1m"},
		"key-or-address":     {Axis: v1alpha1.AxisAPIKey, Limit: 60, Window: "1m"},
		"api-key":            {Axis: v1alpha1.AxisAPIKey, Limit: 600, Window: "1m"},
		"device-writes":      {Axis: v1alpha1.AxisCustom, Limit: 30, Window: "1m"},
		"envoy-login":        {Axis: v1alpha1.AxisIP, Limit: 5, Window: "1m"},
		"office-exempt":      {Axis: v1alpha1.AxisIP, Limit: 20, Window: "1m"},
		"query-cost":         {Axis: v1alpha1.AxisTenant, Limit: 1000, Window: "1m"},
		"tenant-plans":       {Axis: v1alpha1.AxisTenant, Limit: 100, Window: "24h"},
		"tenant-rates":       {Axis: v1alpha1.AxisTenant, Limit: -1},
		"retired-version":    {Axis: v1alpha1.AxisTenant, Limit: 0, Window: "1m"},
		"shadow":             {Axis: v1alpha1.AxisTenant, Limit: 60, Window: "1m", Enforcement: v1alpha1.EnforcementShadow},
	}
	got := map[string]profile{}
	for _, p := range samplePolicies(t) {
		limit := int64(-1) // in rates
		if p.Spec.Limit != nil {
			limit = *p.Spec.Limit
		}
		got[p.Name] = profile{p.Spec.Axis, limit, p.Spec.Window, p.Spec.Enforcement}
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
		{"an anonymous client is limited by its address", "GET", "/", nil, []string{"public-ip"}},
		{
			"a search of a free tenant matches the limits of the plan and of the endpoint", "GET", "/v1/search",
			map[string]string{"x-tenant-id": "acme", "x-plan": "free"},
			[]string{"light-endpoint", "shadow", "tenant-free"},
		},
		{
			"a search of a paid tenant matches the limits of the plan and of the endpoint", "GET", "/v1/search",
			map[string]string{"x-tenant-id": "acme", "x-plan": "paid"},
			[]string{"light-endpoint", "shadow", "tenant-paid"},
		},
		{
			"a preflight is not counted as a search", "OPTIONS", "/v1/search",
			map[string]string{"x-tenant-id": "acme"},
			[]string{"shadow"},
		},
		{
			"a report of a paid tenant matches the limits of the plan and of the endpoint", "POST", "/v1/reports/2026",
			map[string]string{"x-tenant-id": "acme", "x-plan": "paid"},
			[]string{"expensive-endpoint", "shadow", "tenant-paid"},
		},
		{
			"a client with an API key is not limited by its address", "GET", "/v1/items",
			map[string]string{"x-api-key": "k"},
			[]string{"api-key"},
		},
		{
			"a client of the public API without a key is limited by its address", "GET", "/public/items", nil, []string{"key-or-address", "public-ip"},
		},
		{
			"a request to the second version of the API matches only the policy with plans as tiers", "GET", "/v2/items",
			map[string]string{"x-tenant-id": "acme"},
			[]string{"shadow", "tenant-plans"},
		},
		{
			"a GraphQL query matches the policy with a cost", "POST", "/graphql",
			map[string]string{"x-tenant-id": "acme", "x-query-cost": "5"},
			[]string{"query-cost", "shadow"},
		},
		{
			"a write of a device is limited", "PUT", "/v1/devices/7",
			map[string]string{"x-tenant-id": "acme", "x-user-id": "u"},
			[]string{"device-writes", "shadow"},
		},
		{
			"a read of a device is not limited", "GET", "/v1/devices/7",
			map[string]string{"x-tenant-id": "acme", "x-user-id": "u"},
			[]string{"shadow"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, applied := range limitsFor(index, &rules.Request{Method: c.method, Path: c.path, Headers: c.headers}) {
				got = append(got, applied.Policy)
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
		want    appliedLimit
	}{
		{
			"a tenant without a plan has the limit of the policy",
			rules.Request{Path: "/v2", Claims: map[string]any{"tenant": "acme"}},
			appliedLimit{Policy: "tenant-plans", Identifier: "acme", Units: 100, Cost: 1},
		},
		{
			"a paid tenant has the limit of the tier",
			rules.Request{Path: "/v2", Claims: claims("acme", "paid")},
			appliedLimit{Policy: "tenant-plans", Identifier: "acme", Tier: "paid", Units: 10000, Cost: 1},
		},
		{
			"the first matching tier applies, and internal tenants are unlimited",
			rules.Request{Path: "/v2", Claims: claims("shop-web", "paid")},
			appliedLimit{Policy: "tenant-plans", Identifier: "shop-web", Tier: "internal", Unlimited: true},
		},
		{
			"a version that is switched off is denied",
			rules.Request{Path: "/v0/items", Headers: map[string]string{"x-tenant-id": "acme"}},
			appliedLimit{Policy: "retired-version", Identifier: "acme", Units: 0, Cost: 1},
		},
		{
			"a version that is switched off has a limit for internal tenants",
			rules.Request{Path: "/v0/items", Headers: map[string]string{"x-tenant-id": "shop-web"}},
			appliedLimit{Policy: "retired-version", Identifier: "shop-web", Tier: "internal", Units: 600, Cost: 1},
		},
		{
			"a query has the cost in the header of the gateway",
			rules.Request{Path: "/graphql", Headers: map[string]string{"x-tenant-id": "acme", "x-query-cost": "50"}},
			appliedLimit{Policy: "query-cost", Identifier: "acme", Units: 1000, Cost: 50},
		},
		{
			"a query without the header costs 1",
			rules.Request{Path: "/graphql", Headers: map[string]string{"x-tenant-id": "acme"}},
			appliedLimit{Policy: "query-cost", Identifier: "acme", Units: 1000, Cost: 1},
		},
		{
			"an expression combines the user and the device",
			rules.Request{Method: "PUT", Path: "/v1/devices", Headers: map[string]string{"x-user-id": "u", "x-device": "d"}},
			appliedLimit{Policy: "device-writes", Identifier: "u/d", Units: 30, Cost: 1},
		},
		{
			"an expression has a default for a missing device",
			rules.Request{Method: "PUT", Path: "/v1/devices", Headers: map[string]string{"x-user-id": "u"}},
			appliedLimit{Policy: "device-writes", Identifier: "u/unknown", Units: 30, Cost: 1},
		},
		{
			"a login descriptor of Envoy is limited by its remote address",
			rules.Request{Descriptors: login("login")},
			appliedLimit{Policy: "envoy-login", Identifier: "198.51.100.7", Units: 5, Cost: 1},
		},
		{"another descriptor of Envoy is not limited", rules.Request{Descriptors: login("search")}, appliedLimit{}},
		{
			"the administration pages are limited for other addresses",
			rules.Request{Path: "/admin", ClientIP: netip.MustParseAddr("198.51.100.7")},
			appliedLimit{Policy: "office-exempt", Identifier: "198.51.100.7", Units: 20, Cost: 1},
		},
		{"the administration pages are not limited for the office", rules.Request{Path: "/admin", ClientIP: netip.MustParseAddr("203.0.113.7")}, appliedLimit{}},
		{"the administration pages are not limited for the IPv6 network of the office", rules.Request{Path: "/admin", ClientIP: netip.MustParseAddr("2001:db8:100::7")}, appliedLimit{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := limitsFor(index, &c.request)
			all = slices.DeleteFunc(all, func(a appliedLimit) bool { return a.Policy == "shadow" || a.Policy == "public-ip" })
			var got appliedLimit
			if len(all) > 0 {
				got = all[0]
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(all) > 1 {
				t.Errorf("want one limit, got %v (-want +got):\n%s", all, diff)
			}
		})
	}
}

// appliedLimit is the limit that a policy of the samples applies to a request.
type appliedLimit struct {
	Policy, Identifier, Tier string
	Unlimited                bool
	Units, Cost              int64
}

// limitsFor returns the limits that the samples apply to a request in their domain, in the order of the index.
func limitsFor(index *matching.Index, request *rules.Request) []appliedLimit {
	request.Domain = "shop"
	var all []appliedLimit
	for _, m := range index.Match(nil, request) {
		identifier := m.Identify(request)
		terms := m.Terms(request, identifier)
		one := appliedLimit{Policy: strings.TrimPrefix(m.Rule.Policy, "shop/"), Identifier: identifier, Tier: terms.Tier, Unlimited: terms.Unlimited}
		if !terms.Unlimited {
			one.Units, one.Cost = terms.Limit.Units(), terms.Cost
		}
		all = append(all, one)
	}
	return all
}

func sampleIndex(t *testing.T) *matching.Index {
	t.Helper()
	result := stored.Policies{Namespaced: stored.Pointers(samplePolicies(t))}.Compile(compile.DefaultIdentity().WithHashKey(testHashKey()))
	if len(result.Problems) > 0 {
		t.Fatalf("the samples do not compile: %v", result.Problems)
	}
	index, err := matching.NewIndex(result.Set, "", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// samplePolicies reads the samples from their files, without the defaults that the API server sets.
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
			t.Errorf("%s does not begin with a comment that describes the policy", file)
		}
		var p v1alpha1.RateLimitPolicy
		if err := yaml.UnmarshalStrict(data, &p); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		policies = append(policies, p)
	}
	return policies
}

// policyFiles returns the names of the files of the samples that contain a policy, sorted.
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

// testHashKey returns the key with which the tests of this package hash secrets.
func testHashKey() *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		panic(err)
	}
	return key
}
