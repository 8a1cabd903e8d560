package compile_test

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// clusterPolicy draws ClusterRateLimitPolicies with specs from the generator policies.
func clusterPolicy(policies *rapid.Generator[policyapi.RateLimitPolicy]) *rapid.Generator[policyapi.ClusterRateLimitPolicy] {
	return rapid.Custom(func(t *rapid.T) policyapi.ClusterRateLimitPolicy {
		policy := policies.Draw(t, "policy")
		domains := rapid.SliceOfN(rapid.SampledFrom([]policyapi.Domain{"bank", "shop", "shop-eu", "edge_proxy"}), 0, 3).Draw(t, "domains")
		policy.Spec.Replaces = nil
		return policyapi.ClusterRateLimitPolicy{
			ObjectMeta: policyapi.ObjectMeta{Name: policy.Name},
			Spec: policyapi.ClusterRateLimitPolicySpec{
				RateLimitPolicySpec: policy.Spec, Domains: domains,
				Precedence: rapid.SampledFrom([]policyapi.Precedence{"", "Override", "Default"}).Draw(t, "precedence"),
			},
		}
	})
}

func policiesOfBothKinds() *rapid.Generator[compile.Policies] {
	return rapid.Custom(func(t *rapid.T) compile.Policies {
		return compile.Policies{
			Namespaced: rapid.SliceOfN(rapid.OneOf(anyPolicy(), inNamespaceCluster(anyPolicy())), 0, 8).Draw(t, "namespaced"),
			Cluster:    rapid.SliceOfN(clusterPolicy(anyPolicy()), 0, 6).Draw(t, "cluster"),
		}
	})
}

// inNamespaceCluster returns policies in a namespace with the name cluster, which is as good as any other.
func inNamespaceCluster(policies *rapid.Generator[policyapi.RateLimitPolicy]) *rapid.Generator[policyapi.RateLimitPolicy] {
	return rapid.Map(policies, func(policy policyapi.RateLimitPolicy) policyapi.RateLimitPolicy {
		policy.Namespace = "cluster"
		return policy
	})
}

// A ClusterRateLimitPolicy and a policy of the same name in a namespace called cluster have nothing in common, even with the same spec.
func TestCompile_SeparatesTheNamespaceClusterFromClusterPolicies(t *testing.T) {
	enforced := map[string]int{} // rules by domain
	rapid.Check(t, func(t *rapid.T) {
		of := compile.Policies{Cluster: rapid.SliceOfNDistinct(clusterPolicy(goodPolicy()), 1, 5, func(p policyapi.ClusterRateLimitPolicy) string { return p.Name }).Draw(t, "cluster")}
		var twins compile.Policies
		for i := range of.Cluster {
			twin := policyapi.RateLimitPolicy{ObjectMeta: of.Cluster[i].ObjectMeta, Spec: of.Cluster[i].Spec.RateLimitPolicySpec}
			twin.Namespace = "cluster"
			twins.Namespaced = append(twins.Namespaced, twin)
		}
		both := compile.Policies{Cluster: of.Cluster, Namespaced: twins.Namespaced}
		printIfFailed(t, both)
		alone, twinsAlone, together := of.Compile(testIdentity()), twins.Compile(testIdentity()), both.Compile(testIdentity())
		if diff := cmp.Diff(slices.Concat(alone.Set.Rules, twinsAlone.Set.Rules), together.Set.Rules, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("rules differ if policies of the other kind are compiled too (-alone +together):\n%s", diff)
		}
		if diff := cmp.Diff(slices.Concat(alone.Problems, twinsAlone.Problems), together.Problems, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("problems differ if policies of the other kind are compiled too (-alone +together):\n%s", diff)
		}
		counters := map[string]bool{} // true for cluster policies
		for i := range together.Set.Rules {
			rule := &together.Set.Rules[i]
			scope, _ := policyname.Split(rule.Policy)
			if want := map[bool]string{true: policyname.Cluster, false: "cluster"}[rule.Domain == ""]; scope != want {
				t.Errorf("rule %s of domain %q has scope %s", rule.Policy, rule.Domain, scope)
			}
			if ofCluster, found := counters[rule.CounterScope()]; found && ofCluster != (rule.Domain == "") {
				t.Errorf("rule %s has counters of a policy of the other kind: %s", rule.Policy, rule.CounterScope())
			}
			counters[rule.CounterScope()] = rule.Domain == ""
			enforced[rule.Domain]++
		}
		for _, o := range together.Overrides { // only a default is replaced
			if scope, _ := policyname.Split(o.Policy); o.Reason == policyapi.ReasonNamespacePolicy && scope != policyname.Cluster {
				t.Errorf("%+v: a policy of a namespace is replaced", o)
			}
		}
	})
	if enforced[""] == 0 || enforced["cluster"] == 0 {
		t.Errorf("rules by domain: %v, want some of both kinds", enforced)
	}
}

// The schema of the API does not permit such a namespace, and a file can have it.
func TestCluster_IsNotTheNameOfANamespace(t *testing.T) {
	if len(validation.IsDNS1123Label(policyname.Cluster)) == 0 {
		t.Errorf("a namespace can have the name %s", policyname.Cluster)
	}
	policy := policyapi.RateLimitPolicy{
		ObjectMeta: policyapi.ObjectMeta{Namespace: policyname.Cluster, Name: "a"},
		Spec:       policyapi.RateLimitPolicySpec{Axis: "IP", Limit: new(int64(1)), Window: "1m"},
	}
	set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, testIdentity())
	if len(set.Rules) > 0 || len(problems) != 1 || problems[0].Field != "metadata.namespace" {
		t.Errorf("rules %v, problems %v", set.Rules, problems)
	}
	policy.Namespace = "cluster"
	if _, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, testIdentity()); len(problems) > 0 {
		t.Errorf("namespace cluster: %v", problems)
	}
}

// In a file, a name can have the separator of rates. With the name of another policy's rate it would make the rule set invalid.
func TestCompile_RejectsTheSeparatorOfRatesInNames(t *testing.T) {
	for _, name := range []string{"shop/x:1d", "shop:1d/x"} {
		policy := policyapi.RateLimitPolicy{Spec: policyapi.RateLimitPolicySpec{Axis: "IP", Limit: new(int64(1)), Window: "1m"}}
		policy.Namespace, policy.Name = policyname.Split(name)
		other := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "x"}}
		other.Spec = policyapi.RateLimitPolicySpec{Axis: "IP", Rates: []policyapi.Rate{{Limit: 1, Window: "1m"}, {Limit: 5, Window: "1d"}}}
		set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy, other}, testIdentity())
		if len(problems) != 1 || problems[0].Policy != name || len(set.Rules) != 2 {
			t.Errorf("%s: problems %v, rules %v", name, problems, set.Rules)
		}
	}
}

// A policy with onMissing: Skip does not match requests without an identifier, so that the default still limits these.
func TestOverrides_ADefaultLimitsWhatAnotherPolicySkips(t *testing.T) {
	var team policyapi.RateLimitPolicy
	team.Namespace, team.Name = "shop", "team"
	team.Spec = policyapi.RateLimitPolicySpec{Axis: "Tenant", Limit: new(int64(9)), Window: "1m", Replaces: []policyapi.PolicyName{"all"}}
	var all policyapi.ClusterRateLimitPolicy
	all.Name, all.Spec.Precedence = "all", policyapi.PrecedenceDefault
	all.Spec.RateLimitPolicySpec = policyapi.RateLimitPolicySpec{Axis: "Tenant", Limit: new(int64(1)), Window: "1m"}
	skip := &policyapi.Identifier{OnMissing: policyapi.OnMissingSkip}
	for name, tc := range map[string]struct {
		team, all *policyapi.Identifier
		want      int
	}{"the policy": {skip, nil, 0}, "both": {skip, skip, 1}, "the default": {nil, skip, 1}, "none": {nil, nil, 1}} {
		team.Spec.Identifier, all.Spec.Identifier = tc.team, tc.all
		result := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{team}, Cluster: []policyapi.ClusterRateLimitPolicy{all}}.Compile(testIdentity())
		if len(result.Overrides) != tc.want {
			t.Errorf("requests without an identifier are skipped by %s: overrides %v, want %d", name, result.Overrides, tc.want)
		}
	}
}

func TestCompile_IgnoresTheOrderOfPolicies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies := policiesOfBothKinds().Draw(t, "policies")
		printIfFailed(t, policies)
		shuffled := compile.Policies{
			Namespaced: rapid.Permutation(policies.Namespaced).Draw(t, "namespaced"),
			Cluster:    slices.Clone(rapid.Permutation(policies.Cluster).Draw(t, "cluster")),
		}
		for i := range shuffled.Cluster {
			spec := &shuffled.Cluster[i].Spec
			spec.Domains = rapid.Permutation(spec.Domains).Draw(t, "domains")
		}
		one, other := policies.Compile(testIdentity()), shuffled.Compile(testIdentity())
		data, _ := rules.Encode(one.Set)
		dataAgain, _ := rules.Encode(other.Set)
		if !bytes.Equal(data, dataAgain) {
			t.Errorf("another order gives another Set: %s", cmp.Diff(one.Set, other.Set))
		}
		if diff := cmp.Diff(one, other); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCompile_ReturnsARuleOrAProblemForEveryPolicy(t *testing.T) {
	type policy struct {
		name    string
		cluster bool
	}
	rapid.Check(t, func(t *rapid.T) {
		policies := policiesOfBothKinds().Draw(t, "policies")
		printIfFailed(t, policies)
		result := policies.Compile(testIdentity())

		missing := map[policy]bool{}
		for i := range policies.Namespaced {
			missing[policy{compile.Name(&policies.Namespaced[i]), false}] = true
		}
		for i := range policies.Cluster {
			missing[policy{compile.ClusterName(&policies.Cluster[i]), true}] = true
		}
		for name, own := range result.Set.Policies() {
			p := policy{name, strings.HasPrefix(name, "_cluster/")}
			if !missing[p] || p.cluster != (own[0].Domain == "") {
				t.Errorf("unexpected rules: %+v", own)
			}
			delete(missing, p)
		}
		withProblem := map[policy]bool{}
		for _, problem := range result.Problems {
			p := policy{problem.Policy, problem.Cluster}
			if !missing[p] && !withProblem[p] {
				t.Errorf("unexpected problem: %s", problem)
			}
			if problem.Field == "" || problem.Message == "" || problem.Reason != policyapi.ReasonInvalid {
				t.Errorf("incomplete problem: %+v", problem)
			}
			delete(missing, p)
			withProblem[p] = true
		}
		if len(missing) > 0 {
			t.Errorf("no rule and no problem for %v", missing)
		}
		if _, err := matching.NewIndex(result.Set, "sha256:test", "weir:", matching.WithHashKey(testHashKey())); err != nil {
			t.Errorf("a limiter rejects the Set: %v", err)
		}
	})
}

func TestCompile_IsolatesInvalidPolicies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies := policiesOfBothKinds().Draw(t, "policies")
		before := policies.Compile(testIdentity())
		bad := badPolicy().Draw(t, "bad")
		bad.Name = "bad" // a unique name
		name := compile.Name(&bad)
		if rapid.Bool().Draw(t, "bad cluster policy") {
			cluster := clusterPolicy(rapid.Just(bad)).Draw(t, "cluster policy")
			name = compile.ClusterName(&cluster)
			at := rapid.IntRange(0, len(policies.Cluster)).Draw(t, "at")
			policies.Cluster = slices.Insert(policies.Cluster, at, cluster)
		} else {
			at := rapid.IntRange(0, len(policies.Namespaced)).Draw(t, "at")
			policies.Namespaced = slices.Insert(policies.Namespaced, at, bad)
		}
		printIfFailed(t, policies)
		after := policies.Compile(testIdentity())

		problems := len(after.Problems)
		after.Problems = slices.DeleteFunc(after.Problems, func(p compile.Problem) bool { return p.Policy == name })
		if diff := cmp.Diff(before, after, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the invalid policy %s changed the result of other policies: %s", name, diff)
		}
		if problems == len(after.Problems) {
			t.Errorf("no problem names %s", name)
		}
	})
}

// TestOverrides_HoldForEveryRequest compares the reported overrides with the rules that match requests.
func TestOverrides_HoldForEveryRequest(t *testing.T) {
	found := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		policies := compile.Policies{
			Namespaced: slices.Concat(
				rapid.SliceOfN(similarPolicy(), 1, 6).Draw(t, "namespaced"), rapid.SliceOfN(inNamespaceCluster(similarPolicy()), 0, 2).Draw(t, "in namespace cluster"),
			),
			Cluster: rapid.SliceOfN(clusterPolicy(similarPolicy()), 1, 4).Draw(t, "cluster"),
		}
		for i := range policies.Cluster { // a default that replaces others is invalid
			if spec := &policies.Cluster[i].Spec; spec.Precedence == policyapi.PrecedenceDefault {
				spec.Replaces = nil
			}
		}
		// Independent draws rarely agree in scope, name, match and limit, so that two of three have such a pair.
		cluster, namespaced := &policies.Cluster[0].Spec, &policies.Namespaced[0]
		if pair := rapid.SampledFrom([]policyapi.Precedence{"", "Default", "Override"}).Draw(t, "pair"); pair != "" {
			cluster.Precedence, cluster.Domains = pair, nil
			cluster.RateLimitPolicySpec = *namespaced.Spec.DeepCopy()
			cluster.Enforcement, cluster.Replaces = "", nil
			namespaced.Spec.Replaces = []policyapi.PolicyName{policyapi.PolicyName(policies.Cluster[0].Name)}
		}
		printIfFailed(t, policies)
		result := policies.Compile(testIdentity())
		for _, o := range result.Overrides {
			found[o.Reason]++
			at := slices.IndexFunc(result.Set.Rules, func(r rules.Rule) bool { return r.PolicyName() == o.Policy })
			if r := result.Set.Rules[at]; !r.AllDomains && r.Domain != o.Domain && !slices.Contains(r.Domains, o.Domain) {
				t.Errorf("override %+v is in a domain that the policy does not have", o)
			}
		}
		index, err := matching.NewIndex(result.Set, "", "weir:", matching.WithHashKey(testHashKey()))
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			request := anyRequest().Draw(t, "request")
			matched := index.Match(nil, request)
			for _, o := range result.Overrides {
				at, by := indexOfPolicy(matched, o.Policy), indexOfPolicy(matched, o.By)
				switch {
				case o.Domain != request.Domain || at < 0:
				case o.Reason == policyapi.ReasonNamespacePolicy:
					t.Errorf("override %+v, but %s matches %+v", o, o.Policy, request)
				case by < 0 || matched[by].Identify(request) != matched[at].Identify(request):
					t.Errorf("override %+v, but %s does not count %+v for the same identifier", o, o.By, request)
				}
			}
		}
	})
	if found[policyapi.ReasonNamespacePolicy] == 0 || found[policyapi.ReasonStricterPolicy] == 0 {
		t.Errorf("a kind of override never occurred: %v", found)
	}
}

// similarPolicy draws policies that differ in few fields.
func similarPolicy() *rapid.Generator[policyapi.RateLimitPolicy] {
	return rapid.Custom(func(t *rapid.T) policyapi.RateLimitPolicy {
		policy := goodPolicy().Draw(t, "policy")
		policy.Spec.Axis = rapid.SampledFrom([]policyapi.Axis{"Tenant", "User"}).Draw(t, "axis")
		policy.Spec.Identifier, policy.Spec.Tiers, policy.Spec.Cost, policy.Spec.Burst = nil, nil, nil, nil
		policy.Spec.Algorithm, policy.Spec.Window, policy.Spec.OnStoreFailure, policy.Spec.Scope = "SlidingWindowCounter", "1m", "", ""
		if len(policy.Spec.Rates) > 0 { // of one of two windows, or both
			policy.Spec.Algorithm, policy.Spec.Window = "", ""
			policy.Spec.Rates = rapid.SampledFrom([][]policyapi.Rate{
				{{Limit: 100, Window: "1m"}}, {{Limit: 100, Window: "1m"}, {Limit: 200, Window: "1h"}}, {{Limit: 50, Window: "1m"}, {Limit: 100, Window: "1h"}},
			}).Draw(t, "rates")
		}
		policy.Spec.Replaces = rapid.SliceOfNDistinct(rapid.SampledFrom([]policyapi.PolicyName{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, "replaces")
		policy.Spec.Enforcement = rapid.SampledFrom([]policyapi.Enforcement{"", "", "", "Shadow"}).Draw(t, "enforcement")
		switch match := policy.Spec.Match; rapid.IntRange(0, 2).Draw(t, "match") {
		case 0:
			policy.Spec.Match = nil
		case 1:
			if match != nil && match.HTTP != nil {
				match.HTTP = &policyapi.HTTPMatch{Hosts: match.HTTP.Hosts, Paths: match.HTTP.Paths}
			}
		}
		return policy
	})
}

func anyRequest() *rapid.Generator[*rules.Request] {
	return rapid.Custom(func(t *rapid.T) *rules.Request {
		oneOf := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
		domain := oneOf("domain", "bank", "cluster", "shop", "shop-eu", "edge_proxy", "unknown")
		if rapid.IntRange(0, 3).Draw(t, "only descriptors") == 0 {
			return &rules.Request{
				Domain: domain, ClientIP: netip.MustParseAddr(oneOf("address", "10.0.0.1", "203.0.113.7")), NoHTTP: true,
				Descriptors: []rules.Descriptor{{{Key: oneOf("key", "generic_key", "x"), Value: oneOf("value", "login", "y")}}},
			}
		}
		return &rules.Request{
			Domain:   domain,
			Method:   oneOf("method", "GET", "POST"),
			Host:     oneOf("host", "a.example", "x.a.example", "b", ""),
			Path:     oneOf("path", "/", "/v1", "/v1/x.json", "/v9"),
			ClientIP: netip.MustParseAddr(oneOf("address", "10.0.0.1", "203.0.113.7", "2001:db8::7", "2001:db9::7")),
			Headers: map[string]string{
				"x-plan": oneOf("plan", "free", "paid"), "accept": oneOf("accept", "text/html", "*/*"),
				"x-tenant-id": oneOf("tenant", "acme", "globex"), "x-user-id": "u",
			},
			Descriptors: rapid.SliceOfN(rapid.Just(rules.Descriptor{{Key: "generic_key", Value: "login"}}), 0, 1).Draw(t, "descriptors"),
		}
	})
}

func indexOfPolicy(matched []matching.Matched, policy string) int {
	return slices.IndexFunc(matched, func(m matching.Matched) bool { return m.Rule.PolicyName() == policy })
}

func TestCompile_DoesNotModifyClusterPolicies(t *testing.T) {
	policy := policyapi.ClusterRateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Name: "a"}}
	policy.Spec.RateLimitPolicySpec = policyapi.RateLimitPolicySpec{Axis: policyapi.AxisIP, Limit: new(int64(1)), Window: "1m"}
	policy.Spec.Domains = []policyapi.Domain{"shop", "billing", "shop"}
	before := policy
	before.Spec = *policy.Spec.DeepCopy()
	compile.Policies{Cluster: []policyapi.ClusterRateLimitPolicy{policy}}.Compile(testIdentity())
	if diff := cmp.Diff(before, policy); diff != "" {
		t.Error(diff)
	}
}

func TestOverriddenCondition_NamesTheDecidingPolicy(t *testing.T) {
	var many []redundancy.Override
	for domain := range strings.SplitSeq("a b c d e f g h i j", " ") {
		many = append(many, redundancy.Override{Policy: "_cluster/x", Domain: domain, By: domain + "/own", Reason: policyapi.ReasonNamespacePolicy})
	}
	for name, tc := range map[string]struct {
		overrides       []redundancy.Override
		reason, message string
	}{
		"one domain": {many[:1], "NamespacePolicy", "overridden in a by a/own"},
		"the maximum number of named domains": {
			many[:8], "NamespacePolicy",
			"overridden in a by a/own, in b by b/own, in c by c/own, in d by d/own, in e by e/own, in f by f/own, in g by g/own, in h by h/own",
		},
		"more domains than are named": {
			many, "NamespacePolicy",
			"overridden in a by a/own, in b by b/own, in c by c/own, in d by d/own, in e by e/own, in f by f/own, in g by g/own, in h by h/own, and in 2 more",
		},
		"a stricter policy": {
			[]redundancy.Override{{Policy: "a/own", Domain: "a", By: "_cluster/x", Reason: policyapi.ReasonStricterPolicy}},
			"StricterPolicy", "has no effect, because _cluster/x counts the same requests and is at least as strict",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := redundancy.OverriddenCondition(tc.overrides)
			if reason != tc.reason || message != tc.message {
				t.Errorf("got %s: %s, want %s: %s", reason, message, tc.reason, tc.message)
			}
		})
	}
}
