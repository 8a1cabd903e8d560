package compile_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestCovers_ComparesMatchesOfWrites(t *testing.T) {
	created := func(group, resource string) rules.KubernetesResources {
		return rules.KubernetesResources{APIGroups: []string{group}, Resources: []string{resource}, Operations: []string{"CREATE"}}
	}
	with := func(change func(*rules.KubernetesMatch)) rules.Match {
		m := rules.KubernetesMatch{Resources: []rules.KubernetesResources{created("", "pods")}}
		if change != nil {
			change(&m)
		}
		return rules.Match{Kubernetes: &m}
	}
	of := func(all ...rules.KubernetesResources) rules.Match {
		return with(func(m *rules.KubernetesMatch) { m.Resources = all })
	}
	free := rules.Requirement{Key: "plan", Operator: rules.SelectorIn, Values: []string{"free"}}
	web := rules.Requirement{Key: "team", Operator: rules.SelectorIn, Values: []string{"web"}}
	selecting := func(r ...rules.Requirement) rules.Match {
		return with(func(m *rules.KubernetesMatch) { m.NamespaceSelector = r })
	}
	deleted := created("", "pods")
	deleted.Operations = []string{"CREATE", "DELETE"}
	for name, tc := range map[string]struct {
		wide, narrow rules.Match
		want         bool
	}{
		"by the same":                      {with(nil), with(nil), true},
		"not by every other request":       {rules.Match{}, with(nil), false},
		"and cover no other request":       {of(created("*", "*/*")), rules.Match{}, false},
		"by all groups":                    {of(created("*", "pods")), with(nil), true},
		"not by one group":                 {with(nil), of(created("*", "pods")), false},
		"by all resources":                 {of(created("", "*")), with(nil), true},
		"not with subresources":            {of(created("", "*")), of(created("", "pods/eviction")), false},
		"with subresources":                {of(created("", "pods/*")), of(created("", "pods/eviction"), created("", "pods")), true},
		"a subresource of whatever":        {of(created("", "*/scale")), of(created("", "deployments/scale")), true},
		"by one of several":                {of(created("apps", "deployments"), created("", "pods")), with(nil), true},
		"not several by one":               {with(nil), of(created("apps", "deployments"), created("", "pods")), false},
		"more operations":                  {of(deleted), with(nil), true},
		"fewer operations":                 {with(nil), of(deleted), false},
		"some namespaces by all":           {with(nil), with(func(m *rules.KubernetesMatch) { m.Namespaces = []string{"shop"} }), true},
		"all namespaces by some":           {with(func(m *rules.KubernetesMatch) { m.Namespaces = []string{"shop"} }), with(nil), false},
		"selected namespaces by all":       {with(nil), selecting(free), true},
		"all namespaces by selected":       {selecting(free), with(nil), false},
		"twice selected by once":           {selecting(free), selecting(free, web), true},
		"once selected by twice":           {selecting(free, web), selecting(free), false},
		"a user by several":                {with(func(m *rules.KubernetesMatch) { m.Users = []string{"a", "b"} }), with(func(m *rules.KubernetesMatch) { m.Users = []string{"b"} }), true},
		"everybody by a user":              {with(func(m *rules.KubernetesMatch) { m.Users = []string{"a"} }), with(nil), false},
		"everybody by a group":             {with(func(m *rules.KubernetesMatch) { m.Groups = []string{"a"} }), with(nil), false},
		"everybody by all but one":         {with(func(m *rules.KubernetesMatch) { m.ExceptUsers = []string{"a"} }), with(nil), false},
		"all but one by everybody":         {with(nil), with(func(m *rules.KubernetesMatch) { m.ExceptUsers = []string{"a"} }), true},
		"all but two by all but one":       {with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"a"} }), with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"a", "b"} }), true},
		"all but one group by all but two": {with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"a", "b"} }), with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"a"} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compile.Covers(&tc.wide, &tc.narrow); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestCovers_HoldsForEveryWrite draws two matches and many writes: what narrow matches, wide does.
func TestCovers_HoldsForEveryWrite(t *testing.T) {
	said := 0
	rapid.Check(t, func(t *rapid.T) {
		narrow := kubernetesMatch().Draw(t, "narrow")
		wide := narrow.DeepCopy()
		for _, widen := range rapid.SliceOfN(rapid.SampledFrom([]func(m, other *v1alpha1.KubernetesMatch){
			func(m, other *v1alpha1.KubernetesMatch) { m.Resources = other.Resources },
			func(m, other *v1alpha1.KubernetesMatch) { m.Users = other.Users },
			func(m, other *v1alpha1.KubernetesMatch) { m.Groups = other.Groups },
			func(m, other *v1alpha1.KubernetesMatch) { m.ExceptUsers = other.ExceptUsers },
			func(m, other *v1alpha1.KubernetesMatch) { m.NamespaceSelector = other.NamespaceSelector },
			func(m, _ *v1alpha1.KubernetesMatch) { m.Expression = nil },
		}), 1, 2).Draw(t, "widen") {
			widen(wide, kubernetesMatch().Draw(t, "other"))
		}
		policies := compile.Policies{Namespaces: []compile.Namespace{{Name: "shop", Labels: map[string]string{"plan": "free"}}}}
		for name, match := range map[string]*v1alpha1.KubernetesMatch{"narrow": narrow, "wide": wide} {
			policy := v1alpha1.RateLimitPolicy{Spec: v1alpha1.RateLimitPolicySpec{Axis: "User", Limit: 1, Window: "1m", Match: &v1alpha1.Match{Kubernetes: match}}}
			policy.Namespace, policy.Name = "shop", name
			policies.Namespaced = append(policies.Namespaced, policy)
		}
		set := policies.Compile(compile.DefaultIdentity()).Set
		if !compile.Covers(&set.Rules[1].Match, &set.Rules[0].Match) {
			return
		}
		said++
		index, err := rules.NewIndex(set, "", "weir:")
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			one := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
			write := &rules.KubernetesRequest{
				Operation: one("operation", "CREATE", "UPDATE"), Group: one("group", "", "apps", "batch"), Resource: one("resource", "pods", "jobs"),
				Subresource: one("subresource", "", "scale", "status"), Namespace: "shop", User: one("user", "alice", "bob", "eve"),
				Groups: []string{one("group of the user", "alice", "bob", "eve")}, DryRun: rapid.Bool().Draw(t, "dry"),
			}
			var matched []string
			for _, m := range index.Match(nil, &rules.Request{Domain: "shop", Kubernetes: write}) {
				matched = append(matched, m.Rule.Policy)
			}
			if slices.Equal(matched, []string{"shop/narrow"}) {
				t.Fatalf("%+v is matched by narrow alone\n%+v\n%+v", write, set.Rules[0].Match.Kubernetes, set.Rules[1].Match.Kubernetes)
			}
		}
	})
	if said == 0 {
		t.Error("nothing was said to be covered")
	}
	t.Logf("%d pairs", said)
}

func TestIdentityOf_ReturnsTheTableOfALimiter(t *testing.T) {
	var spec v1alpha1.LimiterSpec
	if got := compile.IdentityOf(&spec); got != compile.DefaultIdentity() {
		t.Errorf("a Limiter that says nothing has %+v", got)
	}
	spec.Identity = v1alpha1.IdentityTable{
		IP:     v1alpha1.IPIdentity{IPv6PrefixLength: 56, TrustedProxies: []v1alpha1.CIDR{"10.0.0.0/8"}},
		Tenant: v1alpha1.TenantIdentity{Header: "X-Org", NamespaceLabel: "example.com/Tenant"},
		User:   v1alpha1.UserIdentity{Header: "X-Who"},
		APIKey: v1alpha1.APIKeyIdentity{Header: "X-Key"},
	}
	want := compile.DefaultIdentity()
	want.Tenant.Name, want.User.Name, want.APIKey.Name = "x-org", "x-who", "x-key"
	want.IPv6PrefixLength, want.NamespaceLabel = 56, "example.com/Tenant"
	if got := compile.IdentityOf(&spec); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	spec.Identity.Tenant = v1alpha1.TenantIdentity{NamespaceAnnotation: "tenant"}
	want.Tenant.Name, want.NamespaceLabel, want.NamespaceAnnotation = "x-tenant-id", "", "tenant"
	if got := compile.IdentityOf(&spec); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// onAxis is a policy of the cluster for the creation of pods.
func onAxis(name string, axis v1alpha1.Axis, change func(*v1alpha1.RateLimitPolicySpec)) v1alpha1.ClusterRateLimitPolicy {
	var policy v1alpha1.ClusterRateLimitPolicy
	policy.Name = name
	policy.Spec.RateLimitPolicySpec = v1alpha1.RateLimitPolicySpec{
		Axis: axis, Limit: 1, Window: "1m", Match: &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{
			Resources: []v1alpha1.KubernetesResources{{APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"}}},
		}},
	}
	if change != nil {
		change(&policy.Spec.RateLimitPolicySpec)
	}
	return policy
}
