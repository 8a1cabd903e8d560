package compile_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
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
		write := func(kind string, metadata policyapi.ObjectMeta, spec any) {
			text, err := yaml.Marshal(map[string]any{"apiVersion": "weir.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
			if err != nil {
				t.Error(err)
			}
			file.WriteString("---\n" + string(text))
		}
		for _, p := range policies.Namespaced {
			write("RateLimitPolicy", p.ObjectMeta, p.Spec)
		}
		for _, p := range policies.Cluster {
			write("ClusterRateLimitPolicy", p.ObjectMeta, p.Spec)
		}
		t.Logf("the policies:\n%s", &file)
	})
}

// anyPolicy draws valid and invalid policies. They have few different names, so that some policies have the same name.
func anyPolicy() *rapid.Generator[policyapi.RateLimitPolicy] {
	return rapid.OneOf(goodPolicy(), goodPolicy(), badPolicy())
}

func goodPolicy() *rapid.Generator[policyapi.RateLimitPolicy] {
	return rapid.Custom(func(t *rapid.T) policyapi.RateLimitPolicy {
		policy := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{
			Namespace: rapid.SampledFrom([]string{"bank", "shop", "shop-eu"}).Draw(t, "namespace"),
			Name:      rapid.StringMatching(`[a-e]{1,2}`).Draw(t, "name"),
		}}
		policy.Spec = policyapi.RateLimitPolicySpec{
			Axis:        rapid.SampledFrom([]policyapi.Axis{"IP", "Tenant", "User", "APIKey", "Endpoint", "Custom"}).Draw(t, "axis"),
			Limit:       new(rapid.Int64Range(1, 1_000_000).Draw(t, "limit")),
			Window:      policyapi.Duration(rapid.StringMatching(`[1-9]d|[1-9][0-9]?[hms]|1h30m`).Draw(t, "window")),
			Algorithm:   rapid.SampledFrom(append(algorithms(), "")).Draw(t, "algorithm"),
			Enforcement: rapid.SampledFrom([]policyapi.Enforcement{"", "Enforce", "Shadow"}).Draw(t, "enforcement"),

			OnStoreFailure: rapid.SampledFrom([]policyapi.StoreFailure{"", "Local", "Allow", "Deny"}).Draw(t, "on store failure"),
		}
		if policy.Spec.OnStoreFailure == "" || policy.Spec.OnStoreFailure == policyapi.StoreFailureLocal {
			policy.Spec.LocalShare = rapid.SampledFrom([]policyapi.LocalShare{"", "Equal", "Whole"}).Draw(t, "local share")
		}
		if policy.Spec.Axis != policyapi.AxisEndpoint {
			policy.Spec.Scope = rapid.SampledFrom([]policyapi.Scope{"", "Policy", "Endpoint"}).Draw(t, "scope")
			policy.Spec.Identifier = identifier().Draw(t, "identifier")
		}
		if policy.Spec.Axis != policyapi.AxisEndpoint && policy.Spec.Axis != policyapi.AxisCustom && rapid.Bool().Draw(t, "from the identity table") {
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
func rates() *rapid.Generator[[]policyapi.Rate] {
	possible := rapid.SampledFrom([]policyapi.Rate{
		{Limit: 100, Window: "1s"},
		{Limit: 100, Window: "1s", Algorithm: "TokenBucket", Burst: new(int64(200))},
		{Limit: 1000, Window: "1m"},
		{Limit: 5000, Window: "60s", Algorithm: "SlidingWindowLog"},
		{Limit: 10_000, Window: "1d", Algorithm: "FixedWindow"},
		{Limit: 20_000, Window: "24h"},
	})
	return rapid.SliceOfNDistinct(possible, 1, 3, func(r policyapi.Rate) int {
		return map[policyapi.Duration]int{"1s": 1, "1m": 60, "60s": 60, "1d": 86400, "24h": 86400}[r.Window]
	})
}

// limitWrites changes the spec of a policy: it then limits writes to the Kubernetes API.
func limitWrites(t *rapid.T, spec *policyapi.RateLimitPolicySpec) {
	spec.Axis = rapid.SampledFrom([]policyapi.Axis{"Tenant", "User", "Namespace", "ServiceAccount", "Custom"}).Draw(t, "axis of writes")
	spec.Scope, spec.Identifier, spec.Cost = "", nil, nil
	if spec.Axis == policyapi.AxisCustom {
		spec.Identifier = &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Expression: new(policyapi.Expression(`request.object.metadata.labels.team`))}}
	}
	spec.Match = &policyapi.Match{Kubernetes: kubernetesMatch().Draw(t, "writes")}
	for i := range spec.Tiers {
		spec.Tiers[i].When = rapid.SampledFrom([]policyapi.When{
			{Groups: []policyapi.Group{"staff", "ops"}},
			{Identifiers: []policyapi.TierIdentifier{"shop/ci", "system:serviceaccount:shop:web"}},
			{NamespaceSelector: &policyapi.LabelSelector{MatchLabels: map[string]string{"plan": "paid", "team": "web"}}},
			{Expression: new(policyapi.Expression(`request.dryRun`))},
		}).Draw(t, "when of writes")
	}
}

func kubernetesMatch() *rapid.Generator[*policyapi.KubernetesMatch] {
	users := func() *rapid.Generator[[]policyapi.KubernetesUser] {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]policyapi.KubernetesUser{"alice", "bob", "eve"}), 0, 2, rapid.ID)
	}
	return rapid.Custom(func(t *rapid.T) *policyapi.KubernetesMatch {
		match := &policyapi.KubernetesMatch{
			Users: users().Draw(t, "users"), Groups: users().Draw(t, "groups"),
			ExceptUsers: users().Draw(t, "except users"), ExceptGroups: users().Draw(t, "except groups"),
			NamespaceSelector: rapid.SampledFrom([]*policyapi.LabelSelector{
				nil, nil,
				{},
				{MatchLabels: map[string]string{"plan": "free"}},
				{MatchLabels: map[string]string{"plan": "free", "team": "web"}},
				{MatchExpressions: []policyapi.LabelSelectorRequirement{{Key: "plan", Operator: policyapi.LabelSelectorOpNotIn, Values: []string{"free", "paid"}}}},
			}).Draw(t, "selector"),
			Expression: rapid.SampledFrom([]*policyapi.Expression{nil, nil, new(policyapi.Expression(`request.dryRun`))}).Draw(t, "expression of writes"),
		}
		for range rapid.IntRange(1, 2).Draw(t, "resources") {
			match.Resources = append(match.Resources, policyapi.KubernetesResources{
				APIGroups:  rapid.SliceOfNDistinct(rapid.SampledFrom([]policyapi.APIGroup{"", "apps", "*"}), 1, 2, rapid.ID).Draw(t, "API groups"),
				Resources:  rapid.SliceOfNDistinct(rapid.SampledFrom([]policyapi.ResourceName{"pods", "*", "pods/scale", "pods/*", "*/scale", "*/*"}), 1, 2, rapid.ID).Draw(t, "names"),
				Operations: rapid.SliceOfNDistinct(rapid.SampledFrom([]policyapi.Operation{"CREATE", "UPDATE"}), 0, 2, rapid.ID).Draw(t, "operations"),
			})
		}
		return match
	})
}

func algorithms() []policyapi.Algorithm {
	return []policyapi.Algorithm{"FixedWindow", "SlidingWindowLog", "SlidingWindowCounter", "TokenBucket", "LeakyBucket"}
}

// burst draws a burst that is valid with every limit, window and cost that goodPolicy draws.
func burst(algorithm policyapi.Algorithm) *rapid.Generator[*int64] {
	switch algorithm {
	case policyapi.TokenBucket, policyapi.LeakyBucket:
		return rapid.SampledFrom([]*int64{new(int64(1)), new(int64(7))})
	default:
		return rapid.Just[*int64](nil)
	}
}

func identifier() *rapid.Generator[*policyapi.Identifier] {
	sources := []policyapi.IdentifierSource{
		{Header: new(policyapi.HeaderName("X-Who"))},
		{Query: new("who")},
		{Cookie: new("sid")},
		{Claim: new("realm.tenant")},
		{Descriptor: new(policyapi.DescriptorKey("remote_address"))},
		{Expression: new(policyapi.Expression(`request.method + request.host`))},
	}
	return rapid.Custom(func(t *rapid.T) *policyapi.Identifier {
		order := rapid.Permutation(sources).Draw(t, "sources")
		return &policyapi.Identifier{
			IdentifierSource: order[0],
			Fallbacks:        order[1 : 1+rapid.IntRange(0, 2).Draw(t, "fallbacks")],
			OnMissing: rapid.SampledFrom([]policyapi.OnMissing{
				"", policyapi.OnMissingClientAddress, policyapi.OnMissingShared, policyapi.OnMissingSkip, policyapi.OnMissingDeny,
			}).Draw(t, "onMissing"),
		}
	})
}

func match() *rapid.Generator[*policyapi.Match] {
	return rapid.OneOf(
		rapid.Just[*policyapi.Match](nil),
		rapid.Map(httpMatch(), func(http *policyapi.HTTPMatch) *policyapi.Match { return &policyapi.Match{HTTP: http} }),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]policyapi.DescriptorMatch{
			{Key: "generic_key", Value: new("login")}, {Key: "remote_address"}, {Key: "generic_key", Pattern: new("lo*"), Except: []policyapi.DescriptorPattern{"low", "lo*t"}},
		}), 1, 3), func(entries []policyapi.DescriptorMatch) *policyapi.Match {
			return &policyapi.Match{Descriptors: entries}
		}),
	)
}

func tiers(axis policyapi.Axis, algorithm policyapi.Algorithm) *rapid.Generator[[]policyapi.Tier] {
	one := rapid.Custom(func(t *rapid.T) policyapi.Tier {
		tier := policyapi.Tier{Name: rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?`).Draw(t, "tier"), When: when(axis).Draw(t, "when")}
		if tier.Unlimited = rapid.Bool().Draw(t, "unlimited"); !tier.Unlimited {
			tier.Limit = new(rapid.Int64Range(1, 1_000_000).Draw(t, "limit of the tier"))
			tier.Burst = burst(algorithm).Draw(t, "burst of the tier")
		}
		return tier
	})
	return rapid.SliceOfNDistinct(one, 0, 4, func(tier policyapi.Tier) string { return tier.Name })
}

func when(axis policyapi.Axis) *rapid.Generator[policyapi.When] {
	identifiers := []policyapi.TierIdentifier{"acme", "/v1/", "*", "-", " "}
	if axis == policyapi.AxisIP {
		identifiers = []policyapi.TierIdentifier{"203.0.113.7", "2001:DB8::7", "2001:db8::8", "::ffff:203.0.113.7", "fe80::1%eth0"}
	}
	return rapid.OneOf(
		rapid.Just(policyapi.When{Header: &policyapi.HeaderMatch{Name: "X-Plan", Value: new("paid")}}),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom(identifiers), 1, 4), func(list []policyapi.TierIdentifier) policyapi.When {
			return policyapi.When{Identifiers: list}
		}),
		rapid.Map(networks(1), func(list []policyapi.CIDR) policyapi.When { return policyapi.When{CIDRs: list} }),
		rapid.Just(policyapi.When{Groups: []policyapi.Group{"support", "admins"}}),
		rapid.Just(policyapi.When{Expression: new(policyapi.Expression(`request.method == "GET"`))}),
	)
}

func networks(minLength int) *rapid.Generator[[]policyapi.CIDR] {
	return rapid.SliceOfN(rapid.SampledFrom([]policyapi.CIDR{
		"10.0.0.0/8", "203.0.113.7/32", "0.0.0.0/0", "2001:DB8::/32", "2001:db8:0:0::/32", "::/0",
	}), minLength, 4)
}

func cost() *rapid.Generator[*policyapi.Cost] {
	return rapid.SampledFrom([]*policyapi.Cost{
		nil,
		{Value: new(int64(1))},
		{Header: new(policyapi.HeaderName("X-Cost"))},
		{Expression: new(policyapi.Expression(`request.method == "GET" ? 1 : 10`))},
	})
}

func httpMatch() *rapid.Generator[*policyapi.HTTPMatch] {
	return rapid.Custom(func(t *rapid.T) *policyapi.HTTPMatch {
		return &policyapi.HTTPMatch{
			Hosts: rapid.SliceOfN(rapid.SampledFrom([]policyapi.Host{"a.example", "*.a.example", "A.example", "b"}), 1, 4).Draw(t, "hosts"),
			Paths: rapid.SliceOfN(rapid.SampledFrom([]policyapi.PathMatch{
				{Value: "/"},
				{Value: "/v1"},
				{Type: "PathPrefix", Value: "/v1/"},
				{Type: "Exact", Value: "/v1"},
				{Type: "RegularExpression", Value: "/v[0-9]+"},
			}), 0, 5).Draw(t, "paths"),
			Methods: rapid.SliceOfN(rapid.SampledFrom([]policyapi.Method{"GET", "POST", "get"}), 0, 3).Draw(t, "methods"),
			Headers: rapid.SliceOfN(rapid.SampledFrom([]policyapi.HeaderMatch{
				{Name: "X-Plan", Value: new("free")},
				{Name: "x-plan", Type: "Exact", Value: new("free"), Invert: true},
				{Name: "x-plan", Type: "Present"},
				{Name: "accept", Type: "RegularExpression", Value: new("text/.*")},
			}), 0, 4).Draw(t, "headers"),
			CIDRs:       networks(0).Draw(t, "cidrs"),
			ExceptCIDRs: networks(0).Draw(t, "except cidrs"),
			Expression: rapid.SampledFrom([]*policyapi.Expression{
				nil, new(policyapi.Expression(`request.path.endsWith(".json")`)),
			}).Draw(t, "expression"),
		}
	})
}

// badPolicy draws invalid policies, with one to three faults.
func badPolicy() *rapid.Generator[policyapi.RateLimitPolicy] {
	faults := []func(*policyapi.RateLimitPolicySpec){
		func(s *policyapi.RateLimitPolicySpec) { s.Axis = "Planet" },
		func(s *policyapi.RateLimitPolicySpec) { s.Axis = "" },
		func(s *policyapi.RateLimitPolicySpec) { s.Limit = new(int64(-1)) },
		func(s *policyapi.RateLimitPolicySpec) { s.Limit = new(int64(1_000_000_001)) },
		func(s *policyapi.RateLimitPolicySpec) { s.Window = "1y" },
		func(s *policyapi.RateLimitPolicySpec) { s.Algorithm = "LeapingWindow" },
		func(s *policyapi.RateLimitPolicySpec) { s.Scope = "Galaxy" },
		func(s *policyapi.RateLimitPolicySpec) { s.Enforcement = "Beg" },
		func(s *policyapi.RateLimitPolicySpec) { s.OnStoreFailure = "Hope" },
		func(s *policyapi.RateLimitPolicySpec) { s.LocalShare = "Half" },
		func(s *policyapi.RateLimitPolicySpec) {
			s.OnStoreFailure, s.LocalShare = policyapi.StoreFailureDeny, policyapi.LocalShareWhole
		},
		func(s *policyapi.RateLimitPolicySpec) { s.Identifier = &policyapi.Identifier{} },
		func(s *policyapi.RateLimitPolicySpec) { s.Match = &policyapi.Match{} },
		func(s *policyapi.RateLimitPolicySpec) {
			s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{Paths: []policyapi.PathMatch{{Type: "RegularExpression", Value: "("}}}}
		},
		func(s *policyapi.RateLimitPolicySpec) {
			s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{ExceptCIDRs: []policyapi.CIDR{"10.0.0.1/8"}}}
		},
		func(s *policyapi.RateLimitPolicySpec) {
			s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{Expression: new(policyapi.Expression(`request.path`))}}
		},
		func(s *policyapi.RateLimitPolicySpec) {
			s.Match = &policyapi.Match{Descriptors: []policyapi.DescriptorMatch{{Key: "k", Value: new("")}}}
		},
		func(s *policyapi.RateLimitPolicySpec) { s.Axis, s.Identifier = policyapi.AxisCustom, nil },
		func(s *policyapi.RateLimitPolicySpec) { s.Cost = &policyapi.Cost{} },
		func(s *policyapi.RateLimitPolicySpec) { s.Cost = &policyapi.Cost{Value: new(int64(-1))} },
		func(s *policyapi.RateLimitPolicySpec) {
			s.Cost = &policyapi.Cost{Expression: new(policyapi.Expression(`1.5`))}
		},
		func(s *policyapi.RateLimitPolicySpec) {
			s.Tiers = append(s.Tiers, policyapi.Tier{Name: "none", When: policyapi.When{Groups: []policyapi.Group{"a"}}})
		},
		func(s *policyapi.RateLimitPolicySpec) {
			s.Tiers = append(s.Tiers, policyapi.Tier{Name: "unconditional", Unlimited: true})
		},
		func(s *policyapi.RateLimitPolicySpec) {
			tier := policyapi.Tier{Name: "twice", Unlimited: true, When: policyapi.When{Groups: []policyapi.Group{"a"}}}
			s.Tiers = append(s.Tiers, tier, tier)
		},
	}
	return rapid.Custom(func(t *rapid.T) policyapi.RateLimitPolicy {
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
		policy := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "fuzz"}}
		policy.Spec = policyapi.RateLimitPolicySpec{
			Axis: policyapi.Axis(axis), Limit: new(limit), Window: policyapi.Duration(window), Algorithm: policyapi.Algorithm(algorithm),
			Identifier: &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Header: new(policyapi.HeaderName(name))}},
			Match: &policyapi.Match{HTTP: &policyapi.HTTPMatch{
				Hosts:   []policyapi.Host{policyapi.Host(host)},
				Paths:   []policyapi.PathMatch{{Type: policyapi.PathMatchType(kind), Value: value}},
				Methods: []policyapi.Method{policyapi.Method(method)},
				Headers: []policyapi.HeaderMatch{{Name: policyapi.HeaderName(name), Type: policyapi.HeaderMatchType(kind), Value: &value}},
			}},
		}
		mustReturnRuleOrProblem(t, policy)
		policy.Spec.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{
			CIDRs: []policyapi.CIDR{policyapi.CIDR(host)}, Expression: new(policyapi.Expression(method)),
		}}
		policy.Spec.Cost = &policyapi.Cost{Expression: new(policyapi.Expression(method))}
		policy.Spec.Tiers = []policyapi.Tier{
			{Name: name, Limit: &limit, Burst: &limit, When: policyapi.When{Identifiers: []policyapi.TierIdentifier{policyapi.TierIdentifier(value)}}},
			{Name: kind, Limit: &limit, When: policyapi.When{Expression: new(policyapi.Expression(method))}},
		}
		mustReturnRuleOrProblem(t, policy)
		policy.Spec.Match = &policyapi.Match{Descriptors: []policyapi.DescriptorMatch{{Key: policyapi.DescriptorKey(name), Value: &value}}}
		policy.Spec.Identifier = &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Expression: new(policyapi.Expression(method))}}
		policy.Spec.Tiers, policy.Spec.Cost = nil, &policyapi.Cost{Value: &limit}
		mustReturnRuleOrProblem(t, policy)
	})
}

func mustReturnRuleOrProblem(t *testing.T, policy policyapi.RateLimitPolicy) {
	t.Helper()
	set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, testIdentity())
	if (len(set.Rules) == 1) == (len(problems) > 0) {
		t.Fatalf("want either a rule or problems, got %v and %v", set, problems)
	}
	if _, err := matching.NewIndex(set, "sha256:test", "weir:", matching.WithHashKey(testHashKey())); err != nil {
		t.Fatalf("a limiter rejects the Set: %v", err)
	}
}
