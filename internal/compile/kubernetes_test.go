package compile_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestCovers_ComparesMatchesOfWrites(t *testing.T) {
	creates := func(group, resource string) rules.KubernetesResources {
		return rules.KubernetesResources{APIGroups: []string{group}, Resources: []string{resource}, Operations: []string{"CREATE"}}
	}
	with := func(change func(*rules.KubernetesMatch)) rules.Match {
		m := rules.KubernetesMatch{Resources: []rules.KubernetesResources{creates("", "pods")}}
		if change != nil {
			change(&m)
		}
		return rules.Match{Kubernetes: &m}
	}
	resourcesOf := func(all ...rules.KubernetesResources) rules.Match {
		return with(func(m *rules.KubernetesMatch) { m.Resources = all })
	}
	free := rules.Requirement{Key: "plan", Operator: rules.SelectorIn, Values: []string{"free"}}
	web := rules.Requirement{Key: "team", Operator: rules.SelectorIn, Values: []string{"web"}}
	selecting := func(r ...rules.Requirement) rules.Match {
		return with(func(m *rules.KubernetesMatch) { m.NamespaceSelector = r })
	}
	deleted := creates("", "pods")
	deleted.Operations = []string{"CREATE", "DELETE"}
	for name, tc := range map[string]struct {
		wide, narrow rules.Match
		want         bool
	}{
		"a match covers itself":                           {with(nil), with(nil), true},
		"a match for HTTP requests does not cover writes": {rules.Match{}, with(nil), false},
		"a match for writes does not cover HTTP requests": {resourcesOf(creates("*", "*/*")), rules.Match{}, false},
		"all API groups cover one":                        {resourcesOf(creates("*", "pods")), with(nil), true},
		"one API group does not cover all":                {with(nil), resourcesOf(creates("*", "pods")), false},
		"all resources cover one":                         {resourcesOf(creates("", "*")), with(nil), true},
		"all resources do not cover subresources":         {resourcesOf(creates("", "*")), resourcesOf(creates("", "pods/eviction")), false},
		"all subresources cover one and the resource":     {resourcesOf(creates("", "pods/*")), resourcesOf(creates("", "pods/eviction"), creates("", "pods")), true},
		"a subresource of all resources covers one":       {resourcesOf(creates("", "*/scale")), resourcesOf(creates("", "deployments/scale")), true},
		"two resources cover one of them":                 {resourcesOf(creates("apps", "deployments"), creates("", "pods")), with(nil), true},
		"one resource does not cover two":                 {with(nil), resourcesOf(creates("apps", "deployments"), creates("", "pods")), false},
		"two operations cover one of them":                {resourcesOf(deleted), with(nil), true},
		"one operation does not cover two":                {with(nil), resourcesOf(deleted), false},
		"all namespaces cover one":                        {with(nil), with(func(m *rules.KubernetesMatch) { m.Namespaces = []string{"shop"} }), true},
		"one namespace does not cover all":                {with(func(m *rules.KubernetesMatch) { m.Namespaces = []string{"shop"} }), with(nil), false},
		"all namespaces cover a selector":                 {with(nil), selecting(free), true},
		"a selector does not cover all namespaces":        {selecting(free), with(nil), false},
		"a selector covers itself":                        {selecting(free), selecting(free), true},
		"a selector does not cover another one":           {selecting(free), selecting(web), false},
		"one requirement covers two with it":              {selecting(free), selecting(free, web), true},
		"two requirements do not cover one":               {selecting(free, web), selecting(free), false},
		"two users cover one of them":                     {with(func(m *rules.KubernetesMatch) { m.Users = []string{"a", "b"} }), with(func(m *rules.KubernetesMatch) { m.Users = []string{"b"} }), true},
		"one user covers itself":                          {with(func(m *rules.KubernetesMatch) { m.Users, m.Groups = []string{"a"}, []string{"x"} }), with(func(m *rules.KubernetesMatch) { m.Users, m.Groups = []string{"a"}, []string{"x"} }), true},
		"one user does not cover another":                 {with(func(m *rules.KubernetesMatch) { m.Users = []string{"a"} }), with(func(m *rules.KubernetesMatch) { m.Users = []string{"b"} }), false},
		"one user does not cover all users":               {with(func(m *rules.KubernetesMatch) { m.Users = []string{"a"} }), with(nil), false},
		"one group does not cover all users":              {with(func(m *rules.KubernetesMatch) { m.Groups = []string{"a"} }), with(nil), false},
		"all users except one do not cover all users":     {with(func(m *rules.KubernetesMatch) { m.ExceptUsers = []string{"a"} }), with(nil), false},
		"all users cover all users except one":            {with(nil), with(func(m *rules.KubernetesMatch) { m.ExceptUsers = []string{"a"} }), true},
		"one excepted group covers two with it":           {with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"a"} }), with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"a", "b"} }), true},
		"two excepted groups do not cover one":            {with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"a", "b"} }), with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"a"} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := redundancy.Covers(&tc.wide, &tc.narrow); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// TestCovers_HoldsForEveryWrite draws two matches and many writes. Wide must match every write that narrow matches.
func TestCovers_HoldsForEveryWrite(t *testing.T) {
	covered := 0
	rapid.Check(t, func(t *rapid.T) {
		narrow := kubernetesMatch().Draw(t, "narrow")
		wide := narrow.DeepCopy()
		for _, widen := range rapid.SliceOfN(rapid.SampledFrom([]func(m, other *policyapi.KubernetesMatch){
			func(m, other *policyapi.KubernetesMatch) { m.Resources = other.Resources },
			func(m, other *policyapi.KubernetesMatch) { m.Users = other.Users },
			func(m, other *policyapi.KubernetesMatch) { m.Groups = other.Groups },
			func(m, other *policyapi.KubernetesMatch) { m.ExceptUsers = other.ExceptUsers },
			func(m, other *policyapi.KubernetesMatch) { m.NamespaceSelector = other.NamespaceSelector },
			func(m, _ *policyapi.KubernetesMatch) { m.Expression = nil },
		}), 1, 2).Draw(t, "widen") {
			widen(wide, kubernetesMatch().Draw(t, "other"))
		}
		policies := compile.Policies{Namespaces: []compile.Namespace{{Name: "shop", Labels: map[string]string{"plan": "free"}}}}
		for name, match := range map[string]*policyapi.KubernetesMatch{"narrow": narrow, "wide": wide} {
			policy := policyapi.RateLimitPolicy{Spec: policyapi.RateLimitPolicySpec{Axis: "User", Limit: new(int64(1)), Window: "1m", Match: &policyapi.Match{Kubernetes: match}}}
			policy.Namespace, policy.Name = "shop", name
			policies.Namespaced = append(policies.Namespaced, policy)
		}
		printIfFailed(t, policies)
		set := policies.Compile(testIdentity()).Set
		if !redundancy.Covers(&set.Rules[1].Match, &set.Rules[0].Match) {
			return
		}
		covered++
		index, err := matching.NewIndex(set, "", "weir:", matching.WithHashKey(testHashKey()))
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			oneOf := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
			write := &rules.KubernetesRequest{
				Operation: oneOf("operation", "CREATE", "UPDATE"), Group: oneOf("group", "", "apps", "batch"), Resource: oneOf("resource", "pods", "jobs"),
				Subresource: oneOf("subresource", "", "scale", "status"), Namespace: "shop", User: oneOf("user", "alice", "bob", "eve"),
				Groups: []string{oneOf("group of the user", "alice", "bob", "eve")}, DryRun: rapid.Bool().Draw(t, "dry"),
			}
			var matched []string
			for _, m := range index.Match(nil, &rules.Request{Domain: "shop", Kubernetes: write}) {
				matched = append(matched, m.Rule.Policy)
			}
			if slices.Equal(matched, []string{"shop/narrow"}) {
				t.Fatalf("only narrow matches %+v\n%+v\n%+v", write, set.Rules[0].Match.Kubernetes, set.Rules[1].Match.Kubernetes)
			}
		}
	})
	if covered == 0 {
		t.Error("Covers never returned true")
	}
	t.Logf("%d covered pairs", covered)
}

func TestCompile_ReportsPoliciesForWritesThatMatchNoNamespace(t *testing.T) {
	team := &policyapi.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	of := func(name string, change func(*policyapi.KubernetesMatch), domains ...policyapi.Domain) policyapi.ClusterRateLimitPolicy {
		p := podCreationPolicy(name, policyapi.AxisUser, func(s *policyapi.RateLimitPolicySpec) { change(s.Match.Kubernetes) })
		p.Spec.Domains = domains
		return p
	}
	policies := compile.Policies{
		Namespaces: []compile.Namespace{{Name: "bank"}, {Name: "shop", Labels: map[string]string{"team": "a"}}},
		Cluster: []policyapi.ClusterRateLimitPolicy{
			of("a-all", func(*policyapi.KubernetesMatch) {}),
			of("b-empty-selector", func(m *policyapi.KubernetesMatch) { m.NamespaceSelector = &policyapi.LabelSelector{} }),
			of("c-selected", func(m *policyapi.KubernetesMatch) { m.NamespaceSelector = team }),
			of("d-other-domain", func(m *policyapi.KubernetesMatch) { m.NamespaceSelector = team }, "bank"),
			of("e-named", func(m *policyapi.KubernetesMatch) { m.Namespaces = []policyapi.NamespaceName{"gone", "bank"} }),
			of("f-unknown", func(m *policyapi.KubernetesMatch) { m.Namespaces = []policyapi.NamespaceName{"gone"} }),
			of("g-both", func(m *policyapi.KubernetesMatch) {
				m.NamespaceSelector, m.Namespaces = team, []policyapi.NamespaceName{"bank"}
			}),
			of("h-contradiction", func(m *policyapi.KubernetesMatch) {
				m.Users, m.ExceptUsers = []policyapi.KubernetesUser{"eve"}, []policyapi.KubernetesUser{"eve"}
			}),
		},
	}
	for _, namespace := range []string{"bank", "shop"} {
		p := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: namespace, Name: "own"}}
		p.Spec = of("", func(m *policyapi.KubernetesMatch) { m.NamespaceSelector = team }).Spec.RateLimitPolicySpec
		policies.Namespaced = append(policies.Namespaced, p)
	}
	unmatched := func() (got []string) {
		for _, u := range policies.Compile(testIdentity()).Unmatched {
			got = append(got, u.Reason+" "+u.Policy)
		}
		return got
	}
	want := []string{"NoNamespaces _cluster/d-other-domain", "NoNamespaces _cluster/f-unknown", "NoNamespaces _cluster/g-both", "NoMatch _cluster/h-contradiction", "NoNamespaces bank/own"}
	if diff := cmp.Diff(want, unmatched()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	policies.Namespaces = nil // a file: the namespaces are unknown
	if diff := cmp.Diff([]string{"NoMatch _cluster/h-contradiction"}, unmatched()); diff != "" {
		t.Errorf("without namespaces, -want +got:\n%s", diff)
	}
}

// podCreationPolicy returns a ClusterRateLimitPolicy that limits the creation of pods.
func podCreationPolicy(name string, axis policyapi.Axis, change func(*policyapi.RateLimitPolicySpec)) policyapi.ClusterRateLimitPolicy {
	var policy policyapi.ClusterRateLimitPolicy
	policy.Name = name
	policy.Spec.RateLimitPolicySpec = policyapi.RateLimitPolicySpec{
		Axis: axis, Limit: new(int64(1)), Window: "1m", Match: &policyapi.Match{Kubernetes: &policyapi.KubernetesMatch{
			Resources: []policyapi.KubernetesResources{{APIGroups: []policyapi.APIGroup{""}, Resources: []policyapi.ResourceName{"pods"}}},
		}},
	}
	if change != nil {
		change(&policy.Spec.RateLimitPolicySpec)
	}
	return policy
}
