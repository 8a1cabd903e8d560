package compile_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// printIfFailed prints policies as a file for weir lint if the test fails: rapid prints pointers as addresses.
func printIfFailed(t *rapid.T, policies compile.Policies) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		var file strings.Builder
		write := func(object any) {
			text, err := yaml.Marshal(object)
			if err != nil {
				t.Error(err)
			}
			file.WriteString("---\n" + string(text))
		}
		for _, policy := range policies.Namespaced {
			policy.APIVersion, policy.Kind = v1alpha1.GroupVersion.String(), "RateLimitPolicy"
			write(policy)
		}
		for _, policy := range policies.Cluster {
			policy.APIVersion, policy.Kind = v1alpha1.GroupVersion.String(), "ClusterRateLimitPolicy"
			write(policy)
		}
		t.Logf("the policies:\n%s", &file)
	})
}

// anyPolicy draws valid and invalid policies. They have few different names, so that some policies have the same name.
func anyPolicy() *rapid.Generator[v1alpha1.RateLimitPolicy] {
	return rapid.OneOf(goodPolicy(), goodPolicy(), badPolicy())
}

func goodPolicy() *rapid.Generator[v1alpha1.RateLimitPolicy] {
	return rapid.Custom(func(t *rapid.T) v1alpha1.RateLimitPolicy {
		policy := v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: rapid.SampledFrom([]string{"bank", "shop", "shop-eu"}).Draw(t, "namespace"),
			Name:      rapid.StringMatching(`[a-e]{1,2}`).Draw(t, "name"),
		}}
		policy.Spec = v1alpha1.RateLimitPolicySpec{
			Axis:        rapid.SampledFrom([]v1alpha1.Axis{"IP", "Tenant", "User", "APIKey", "Endpoint", "Custom"}).Draw(t, "axis"),
			Limit:       new(rapid.Int64Range(1, 1_000_000).Draw(t, "limit")),
			Window:      v1alpha1.Duration(rapid.StringMatching(`[1-9]d|[1-9][0-9]?[hms]|1h30m`).Draw(t, "window")),
			Algorithm:   rapid.SampledFrom(append(algorithms(), "")).Draw(t, "algorithm"),
			Enforcement: rapid.SampledFrom([]v1alpha1.Enforcement{"", "Enforce", "Shadow"}).Draw(t, "enforcement"),

			OnStoreFailure: rapid.SampledFrom([]v1alpha1.StoreFailure{"", "Local", "Allow", "Deny"}).Draw(t, "on store failure"),
		}
		if policy.Spec.Axis != v1alpha1.AxisEndpoint {
			policy.Spec.Scope = rapid.SampledFrom([]v1alpha1.Scope{"", "Policy", "Endpoint"}).Draw(t, "scope")
			policy.Spec.Identifier = identifier().Draw(t, "identifier")
		}
		if policy.Spec.Axis != v1alpha1.AxisEndpoint && policy.Spec.Axis != v1alpha1.AxisCustom && rapid.Bool().Draw(t, "from the identity table") {
			policy.Spec.Identifier = nil
		}
		policy.Spec.Burst = burst(policy.Spec.Algorithm).Draw(t, "burst")
		policy.Spec.Match = match().Draw(t, "match")
		policy.Spec.Tiers = tiers(policy.Spec.Axis, policy.Spec.Algorithm).Draw(t, "tiers")
		policy.Spec.Cost = cost().Draw(t, "cost")
		if rapid.IntRange(0, 3).Draw(t, "several rates") == 0 {
			policy.Spec.Limit, policy.Spec.Window, policy.Spec.Algorithm, policy.Spec.Burst = nil, "", "", nil
			policy.Spec.Rates = rates().Draw(t, "rates")
			for i := range policy.Spec.Tiers {
				if tier := &policy.Spec.Tiers[i]; tier.Limit != nil {
					tier.Limit, tier.Burst, tier.Rates = nil, nil, rates().Draw(t, "rates of a tier")
				}
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "for writes") == 0 {
			limitWrites(t, &policy.Spec)
		}
		return policy
	})
}

// rates draws up to three rates of six possible ones. No two of them have the same window.
func rates() *rapid.Generator[[]v1alpha1.Rate] {
	possible := rapid.SampledFrom([]v1alpha1.Rate{
		{Limit: 100, Window: "1s"},
		{Limit: 100, Window: "1s", Algorithm: "TokenBucket", Burst: new(int64(200))},
		{Limit: 1000, Window: "1m"},
		{Limit: 5000, Window: "60s", Algorithm: "SlidingWindowLog"},
		{Limit: 10_000, Window: "1d", Algorithm: "FixedWindow"},
		{Limit: 20_000, Window: "24h"},
	})
	return rapid.SliceOfNDistinct(possible, 1, 3, func(r v1alpha1.Rate) int {
		return map[v1alpha1.Duration]int{"1s": 1, "1m": 60, "60s": 60, "1d": 86400, "24h": 86400}[r.Window]
	})
}

// limitWrites changes the spec of a policy: it then limits writes to the Kubernetes API.
func limitWrites(t *rapid.T, spec *v1alpha1.RateLimitPolicySpec) {
	spec.Axis = rapid.SampledFrom([]v1alpha1.Axis{"Tenant", "User", "Namespace", "ServiceAccount", "Custom"}).Draw(t, "axis of writes")
	spec.Scope, spec.Identifier, spec.Cost = "", nil, nil
	if spec.Axis == v1alpha1.AxisCustom {
		spec.Identifier = &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Expression: new(v1alpha1.Expression(`request.object.metadata.labels.team`))}}
	}
	spec.Match = &v1alpha1.Match{Kubernetes: kubernetesMatch().Draw(t, "writes")}
	for i := range spec.Tiers {
		spec.Tiers[i].When = rapid.SampledFrom([]v1alpha1.When{
			{Groups: []v1alpha1.Group{"staff", "ops"}},
			{Identifiers: []v1alpha1.TierIdentifier{"shop/ci", "system:serviceaccount:shop:web"}},
			{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"plan": "paid", "team": "web"}}},
			{Expression: new(v1alpha1.Expression(`request.dryRun`))},
		}).Draw(t, "when of writes")
	}
}

func kubernetesMatch() *rapid.Generator[*v1alpha1.KubernetesMatch] {
	users := func() *rapid.Generator[[]v1alpha1.KubernetesUser] {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]v1alpha1.KubernetesUser{"alice", "bob", "eve"}), 0, 2, rapid.ID)
	}
	return rapid.Custom(func(t *rapid.T) *v1alpha1.KubernetesMatch {
		match := &v1alpha1.KubernetesMatch{
			Users: users().Draw(t, "users"), Groups: users().Draw(t, "groups"),
			ExceptUsers: users().Draw(t, "except users"), ExceptGroups: users().Draw(t, "except groups"),
			NamespaceSelector: rapid.SampledFrom([]*metav1.LabelSelector{
				nil, nil,
				{},
				{MatchLabels: map[string]string{"plan": "free"}},
				{MatchLabels: map[string]string{"plan": "free", "team": "web"}},
				{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "plan", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"free", "paid"}}}},
			}).Draw(t, "selector"),
			Expression: rapid.SampledFrom([]*v1alpha1.Expression{nil, nil, new(v1alpha1.Expression(`request.dryRun`))}).Draw(t, "expression of writes"),
		}
		for range rapid.IntRange(1, 2).Draw(t, "resources") {
			match.Resources = append(match.Resources, v1alpha1.KubernetesResources{
				APIGroups:  rapid.SliceOfNDistinct(rapid.SampledFrom([]v1alpha1.APIGroup{"", "apps", "*"}), 1, 2, rapid.ID).Draw(t, "API groups"),
				Resources:  rapid.SliceOfNDistinct(rapid.SampledFrom([]v1alpha1.ResourceName{"pods", "*", "pods/scale", "pods/*", "*/scale", "*/*"}), 1, 2, rapid.ID).Draw(t, "names"),
				Operations: rapid.SliceOfNDistinct(rapid.SampledFrom([]v1alpha1.Operation{"CREATE", "UPDATE"}), 0, 2, rapid.ID).Draw(t, "operations"),
			})
		}
		return match
	})
}

func algorithms() []v1alpha1.Algorithm {
	return []v1alpha1.Algorithm{"FixedWindow", "SlidingWindowLog", "SlidingWindowCounter", "TokenBucket", "LeakyBucket"}
}

// burst draws a burst that is valid with every limit, window and cost that goodPolicy draws.
func burst(algorithm v1alpha1.Algorithm) *rapid.Generator[*int64] {
	switch algorithm {
	case v1alpha1.TokenBucket, v1alpha1.LeakyBucket:
		return rapid.SampledFrom([]*int64{new(int64(1)), new(int64(7))})
	default:
		return rapid.Just[*int64](nil)
	}
}

func identifier() *rapid.Generator[*v1alpha1.Identifier] {
	sources := []v1alpha1.IdentifierSource{
		{Header: new(v1alpha1.HeaderName("X-Who"))},
		{Query: new("who")},
		{Cookie: new("sid")},
		{Claim: new("realm.tenant")},
		{Descriptor: new(v1alpha1.DescriptorKey("remote_address"))},
		{Expression: new(v1alpha1.Expression(`request.method + request.host`))},
	}
	return rapid.Custom(func(t *rapid.T) *v1alpha1.Identifier {
		order := rapid.Permutation(sources).Draw(t, "sources")
		return &v1alpha1.Identifier{
			IdentifierSource: order[0],
			Fallbacks:        order[1 : 1+rapid.IntRange(0, 2).Draw(t, "fallbacks")],
			OnMissing: rapid.SampledFrom([]v1alpha1.OnMissing{
				"", v1alpha1.OnMissingClientAddress, v1alpha1.OnMissingShared, v1alpha1.OnMissingSkip, v1alpha1.OnMissingDeny,
			}).Draw(t, "onMissing"),
		}
	})
}

func match() *rapid.Generator[*v1alpha1.Match] {
	return rapid.OneOf(
		rapid.Just[*v1alpha1.Match](nil),
		rapid.Map(httpMatch(), func(http *v1alpha1.HTTPMatch) *v1alpha1.Match { return &v1alpha1.Match{HTTP: http} }),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]v1alpha1.DescriptorMatch{
			{Key: "generic_key", Value: new("login")}, {Key: "remote_address"}, {Key: "generic_key", Pattern: new("lo*"), Except: []v1alpha1.DescriptorPattern{"low", "lo*t"}},
		}), 1, 3), func(entries []v1alpha1.DescriptorMatch) *v1alpha1.Match { return &v1alpha1.Match{Descriptors: entries} }),
	)
}

func tiers(axis v1alpha1.Axis, algorithm v1alpha1.Algorithm) *rapid.Generator[[]v1alpha1.Tier] {
	one := rapid.Custom(func(t *rapid.T) v1alpha1.Tier {
		tier := v1alpha1.Tier{Name: rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?`).Draw(t, "tier"), When: when(axis).Draw(t, "when")}
		if tier.Unlimited = rapid.Bool().Draw(t, "unlimited"); !tier.Unlimited {
			tier.Limit = new(rapid.Int64Range(1, 1_000_000).Draw(t, "limit of the tier"))
			tier.Burst = burst(algorithm).Draw(t, "burst of the tier")
		}
		return tier
	})
	return rapid.SliceOfNDistinct(one, 0, 4, func(tier v1alpha1.Tier) string { return tier.Name })
}

func when(axis v1alpha1.Axis) *rapid.Generator[v1alpha1.When] {
	identifiers := []v1alpha1.TierIdentifier{"acme", "/v1/", "*", "-", " "}
	if axis == v1alpha1.AxisIP {
		identifiers = []v1alpha1.TierIdentifier{"203.0.113.7", "2001:DB8::7", "2001:db8::8", "::ffff:203.0.113.7", "fe80::1%eth0"}
	}
	return rapid.OneOf(
		rapid.Just(v1alpha1.When{Header: &v1alpha1.HeaderMatch{Name: "X-Plan", Value: new("paid")}}),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom(identifiers), 1, 4), func(list []v1alpha1.TierIdentifier) v1alpha1.When {
			return v1alpha1.When{Identifiers: list}
		}),
		rapid.Map(networks(1), func(list []v1alpha1.CIDR) v1alpha1.When { return v1alpha1.When{CIDRs: list} }),
		rapid.Just(v1alpha1.When{Groups: []v1alpha1.Group{"support", "admins"}}),
		rapid.Just(v1alpha1.When{Expression: new(v1alpha1.Expression(`request.method == "GET"`))}),
	)
}

func networks(minLength int) *rapid.Generator[[]v1alpha1.CIDR] {
	return rapid.SliceOfN(rapid.SampledFrom([]v1alpha1.CIDR{
		"10.0.0.0/8", "203.0.113.7/32", "0.0.0.0/0", "2001:DB8::/32", "2001:db8:0:0::/32", "::/0",
	}), minLength, 4)
}

func cost() *rapid.Generator[*v1alpha1.Cost] {
	return rapid.SampledFrom([]*v1alpha1.Cost{
		nil,
		{Value: new(int64(1))},
		{Header: new(v1alpha1.HeaderName("X-Cost"))},
		{Expression: new(v1alpha1.Expression(`request.method == "GET" ? 1 : 10`))},
	})
}

func httpMatch() *rapid.Generator[*v1alpha1.HTTPMatch] {
	return rapid.Custom(func(t *rapid.T) *v1alpha1.HTTPMatch {
		return &v1alpha1.HTTPMatch{
			Hosts: rapid.SliceOfN(rapid.SampledFrom([]v1alpha1.Host{"a.example", "*.a.example", "A.example", "b"}), 1, 4).Draw(t, "hosts"),
			Paths: rapid.SliceOfN(rapid.SampledFrom([]v1alpha1.PathMatch{
				{Value: "/"},
				{Value: "/v1"},
				{Type: "PathPrefix", Value: "/v1/"},
				{Type: "Exact", Value: "/v1"},
				{Type: "RegularExpression", Value: "/v[0-9]+"},
			}), 0, 5).Draw(t, "paths"),
			Methods: rapid.SliceOfN(rapid.SampledFrom([]v1alpha1.Method{"GET", "POST", "get"}), 0, 3).Draw(t, "methods"),
			Headers: rapid.SliceOfN(rapid.SampledFrom([]v1alpha1.HeaderMatch{
				{Name: "X-Plan", Value: new("free")},
				{Name: "x-plan", Type: "Exact", Value: new("free"), Invert: true},
				{Name: "x-plan", Type: "Present"},
				{Name: "accept", Type: "RegularExpression", Value: new("text/.*")},
			}), 0, 4).Draw(t, "headers"),
			CIDRs:       networks(0).Draw(t, "cidrs"),
			ExceptCIDRs: networks(0).Draw(t, "except cidrs"),
			Expression: rapid.SampledFrom([]*v1alpha1.Expression{
				nil, new(v1alpha1.Expression(`request.path.endsWith(".json")`)),
			}).Draw(t, "expression"),
		}
	})
}

// badPolicy draws invalid policies, with one to three faults.
func badPolicy() *rapid.Generator[v1alpha1.RateLimitPolicy] {
	faults := []func(*v1alpha1.RateLimitPolicySpec){
		func(s *v1alpha1.RateLimitPolicySpec) { s.Axis = "Planet" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Axis = "" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Limit = new(int64(-1)) },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Limit = new(int64(1_000_000_001)) },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Window = "1y" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Algorithm = "LeapingWindow" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Scope = "Galaxy" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Enforcement = "Beg" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.OnStoreFailure = "Hope" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Identifier = &v1alpha1.Identifier{} },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Match = &v1alpha1.Match{} },
		func(s *v1alpha1.RateLimitPolicySpec) {
			s.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Paths: []v1alpha1.PathMatch{{Type: "RegularExpression", Value: "("}}}}
		},
		func(s *v1alpha1.RateLimitPolicySpec) {
			s.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{ExceptCIDRs: []v1alpha1.CIDR{"10.0.0.1/8"}}}
		},
		func(s *v1alpha1.RateLimitPolicySpec) {
			s.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Expression: new(v1alpha1.Expression(`request.path`))}}
		},
		func(s *v1alpha1.RateLimitPolicySpec) {
			s.Match = &v1alpha1.Match{Descriptors: []v1alpha1.DescriptorMatch{{Key: "k", Value: new("")}}}
		},
		func(s *v1alpha1.RateLimitPolicySpec) { s.Axis, s.Identifier = v1alpha1.AxisCustom, nil },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Cost = &v1alpha1.Cost{} },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Cost = &v1alpha1.Cost{Value: new(int64(-1))} },
		func(s *v1alpha1.RateLimitPolicySpec) {
			s.Cost = &v1alpha1.Cost{Expression: new(v1alpha1.Expression(`1.5`))}
		},
		func(s *v1alpha1.RateLimitPolicySpec) {
			s.Tiers = append(s.Tiers, v1alpha1.Tier{Name: "none", When: v1alpha1.When{Groups: []v1alpha1.Group{"a"}}})
		},
		func(s *v1alpha1.RateLimitPolicySpec) {
			s.Tiers = append(s.Tiers, v1alpha1.Tier{Name: "unconditional", Unlimited: true})
		},
		func(s *v1alpha1.RateLimitPolicySpec) {
			tier := v1alpha1.Tier{Name: "twice", Unlimited: true, When: v1alpha1.When{Groups: []v1alpha1.Group{"a"}}}
			s.Tiers = append(s.Tiers, tier, tier)
		},
	}
	return rapid.Custom(func(t *rapid.T) v1alpha1.RateLimitPolicy {
		policy := goodPolicy().Draw(t, "policy")
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(faults)-1), 1, 3, rapid.ID).Draw(t, "faults") {
			faults[i](&policy.Spec)
		}
		return policy
	})
}

// FuzzCompile sets text fields to any text. Compile must return either a rule or problems, and a limiter must accept the rules.
func FuzzCompile(f *testing.F) {
	f.Add("Tenant", int64(100), "1d", "SlidingWindowLog", "X-Tenant", "Exact", "/v1", "api.shop.example", "GET")
	f.Add("IP", int64(-1), "9999999h", "", "x y", "RegularExpression", `\Qa`, "*.", "get")
	f.Add("APIKey", int64(1), "0d", "", "", "RegularExpression", `a)|(?:b`, "*.*.a", "\xff")
	f.Add("User", int64(1), "1s", "", "k", "PathPrefix", "/../..", "\u212a.example", "")
	f.Add("Custom", int64(9), "1s", "LeakyBucket", "k", "PathPrefix", "/", "10.0.0.0/8", `request.method == "GET"`)
	f.Add("IP", int64(9), "1s", "TokenBucket", "k", "PathPrefix", "/", "2001:db8::/32", `"a"`)
	f.Fuzz(func(t *testing.T, axis string, limit int64, window, algorithm, name, kind, value, host, method string) {
		policy := v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "fuzz"}}
		policy.Spec = v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.Axis(axis), Limit: new(limit), Window: v1alpha1.Duration(window), Algorithm: v1alpha1.Algorithm(algorithm),
			Identifier: &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Header: new(v1alpha1.HeaderName(name))}},
			Match: &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{
				Hosts:   []v1alpha1.Host{v1alpha1.Host(host)},
				Paths:   []v1alpha1.PathMatch{{Type: v1alpha1.PathMatchType(kind), Value: value}},
				Methods: []v1alpha1.Method{v1alpha1.Method(method)},
				Headers: []v1alpha1.HeaderMatch{{Name: v1alpha1.HeaderName(name), Type: v1alpha1.HeaderMatchType(kind), Value: &value}},
			}},
		}
		mustReturnRuleOrProblem(t, policy)
		policy.Spec.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{
			CIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(host)}, Expression: new(v1alpha1.Expression(method)),
		}}
		policy.Spec.Cost = &v1alpha1.Cost{Expression: new(v1alpha1.Expression(method))}
		policy.Spec.Tiers = []v1alpha1.Tier{
			{Name: name, Limit: &limit, Burst: &limit, When: v1alpha1.When{Identifiers: []v1alpha1.TierIdentifier{v1alpha1.TierIdentifier(value)}}},
			{Name: kind, Limit: &limit, When: v1alpha1.When{Expression: new(v1alpha1.Expression(method))}},
		}
		mustReturnRuleOrProblem(t, policy)
		policy.Spec.Match = &v1alpha1.Match{Descriptors: []v1alpha1.DescriptorMatch{{Key: v1alpha1.DescriptorKey(name), Value: &value}}}
		policy.Spec.Identifier = &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Expression: new(v1alpha1.Expression(method))}}
		policy.Spec.Tiers, policy.Spec.Cost = nil, &v1alpha1.Cost{Value: &limit}
		mustReturnRuleOrProblem(t, policy)
	})
}

func mustReturnRuleOrProblem(t *testing.T, policy v1alpha1.RateLimitPolicy) {
	t.Helper()
	set, problems := compile.Compile([]v1alpha1.RateLimitPolicy{policy}, testIdentity())
	if (len(set.Rules) == 1) == (len(problems) > 0) {
		t.Fatalf("want either a rule or problems, got %v and %v", set, problems)
	}
	if _, err := matching.NewIndex(set, "sha256:test", "weir:", matching.WithHashKey(testHashKey())); err != nil {
		t.Fatalf("a limiter rejects the Set: %v", err)
	}
}
