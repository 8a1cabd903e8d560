package compile_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/credentials"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

func TestCompile_IgnoresTheOrderOfUnorderedLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := goodPolicy().Draw(t, "policy")
		printIfFailed(t, compile.Policies{Namespaced: []policyapi.RateLimitPolicy{policy}})
		shuffled := policy
		shuffled.Spec = *policy.Spec.DeepCopy()
		if shuffled.Spec.Match != nil && shuffled.Spec.Match.HTTP != nil {
			http := shuffled.Spec.Match.HTTP
			http.Hosts = rapid.Permutation(http.Hosts).Draw(t, "hosts")
			http.Paths = rapid.Permutation(http.Paths).Draw(t, "paths")
			http.Methods = rapid.Permutation(http.Methods).Draw(t, "methods")
			http.Headers = rapid.Permutation(http.Headers).Draw(t, "headers")
			http.CIDRs = rapid.Permutation(http.CIDRs).Draw(t, "cidrs")
			http.ExceptCIDRs = rapid.Permutation(http.ExceptCIDRs).Draw(t, "except cidrs")
		}
		if shuffled.Spec.Match != nil && shuffled.Spec.Match.Kubernetes != nil {
			writes := shuffled.Spec.Match.Kubernetes
			writes.Resources = rapid.Permutation(writes.Resources).Draw(t, "resources")
			for i := range writes.Resources {
				resources := &writes.Resources[i]
				resources.APIGroups, resources.Resources = rapid.Permutation(resources.APIGroups).Draw(t, "groups"), rapid.Permutation(resources.Resources).Draw(t, "names")
			}
			writes.Users, writes.Groups = rapid.Permutation(writes.Users).Draw(t, "users"), rapid.Permutation(writes.Groups).Draw(t, "user groups")
			writes.ExceptUsers = rapid.Permutation(writes.ExceptUsers).Draw(t, "except users")
			writes.ExceptGroups = rapid.Permutation(writes.ExceptGroups).Draw(t, "except groups")
		}
		for i := range shuffled.Spec.Tiers {
			when := &shuffled.Spec.Tiers[i].When
			when.Identifiers = rapid.Permutation(when.Identifiers).Draw(t, "identifiers")
			when.CIDRs = rapid.Permutation(when.CIDRs).Draw(t, "cidrs of a tier")
			when.Groups = rapid.Permutation(when.Groups).Draw(t, "groups")
		}
		if diff := cmp.Diff(mustCompile(t, policy), mustCompile(t, shuffled)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCompile_DoesNotModifyPolicies(t *testing.T) {
	policy := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "a"}}
	policy.Spec = policyapi.RateLimitPolicySpec{Axis: policyapi.AxisIP, Limit: new(int64(1)), Window: "1m", Match: &policyapi.Match{
		HTTP: &policyapi.HTTPMatch{Hosts: []policyapi.Host{"B.example", "a.example", "a.example"}, Methods: []policyapi.Method{"POST", "GET"}},
	}}
	before := policy
	before.Spec = *policy.Spec.DeepCopy()
	mustCompile(t, policy)
	if diff := cmp.Diff(before, policy); diff != "" {
		t.Error(diff)
	}
}

func TestCompile_ReturnsAnEmptySetWithoutPolicies(t *testing.T) {
	deleted := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{
		Namespace: "shop", Name: "a", DeletionTimestamp: new(time.Unix(1, 0)),
	}}
	for name, policies := range map[string][]policyapi.RateLimitPolicy{"no policies": nil, "a policy that is being deleted": {deleted}} {
		set, problems := compile.Compile(policies, compile.DefaultIdentity())
		if len(set.Rules)+len(problems) > 0 {
			t.Errorf("%s: got %v, %v", name, set, problems)
		}
	}
}

func TestCompile_UsesTheIdentityTableForPoliciesWithoutIdentifier(t *testing.T) {
	identity := compile.DefaultIdentity()
	identity.APIKey = rules.Identifier{From: rules.FromQuery, Name: "key"}
	identity.IP = rules.Identifier{From: rules.FromHeader, Name: "x-real-ip"}
	identity.Credentials = credentials.New("X-License")
	for name, tc := range map[string]struct {
		axis policyapi.Axis
		own  *policyapi.Identifier
		want rules.Identifier
	}{
		"the API key of the table is a secret": {policyapi.AxisAPIKey, nil, rules.Identifier{From: rules.FromQuery, Name: "key", Secret: true}},
		"a header with credentials is a secret": {
			policyapi.AxisUser, &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Header: new(policyapi.HeaderName("Authorization"))}},
			rules.Identifier{From: rules.FromHeader, Name: "authorization", Secret: true},
		},
		"a cookie is a secret": {
			policyapi.AxisUser, &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Cookie: new("theme")}}, rules.Identifier{From: rules.FromCookie, Name: "theme", Secret: true},
		},
		"a query parameter with credentials is a secret": {
			policyapi.AxisUser, &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Query: new("api_key")}}, rules.Identifier{From: rules.FromQuery, Name: "api_key", Secret: true},
		},
		"an entry with credentials is a secret": {
			policyapi.AxisCustom, &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Descriptor: new(policyapi.DescriptorKey("authorization"))}},
			rules.Identifier{From: rules.FromDescriptor, Name: "authorization", Secret: true},
		},
		"a claim with credentials is a secret": {
			policyapi.AxisUser, &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Claim: new("realm.access_token")}},
			rules.Identifier{From: rules.FromClaim, Name: "realm.access_token", Secret: true},
		},
		"a name on the list of the Limiter is one of credentials": {
			policyapi.AxisUser, &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Header: new(policyapi.HeaderName("X-License"))}},
			rules.Identifier{From: rules.FromHeader, Name: "x-license", Secret: true},
		},
		"an expression that reads credentials is a secret": {
			policyapi.AxisCustom, &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Expression: new(policyapi.Expression(`request.path + request.headers["x-api-key"]`))}},
			rules.Identifier{From: rules.FromExpression, Name: `request.path + request.headers["x-api-key"]`, Secret: true},
		},
		"the identifier of the policy replaces the table's": {policyapi.AxisAPIKey, &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Header: new(policyapi.HeaderName("X-Key"))}}, rules.Identifier{From: rules.FromHeader, Name: "x-key", Secret: true}},
		"the IP identifier of the table is an address":      {policyapi.AxisIP, nil, rules.Identifier{From: rules.FromHeader, Name: "x-real-ip", Address: true}},
		"a tenant is neither a secret nor an address":       {policyapi.AxisTenant, nil, rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}},
		"the endpoint does not depend on the table":         {policyapi.AxisEndpoint, nil, rules.Identifier{From: rules.FromEndpoint}},
	} {
		t.Run(name, func(t *testing.T) {
			policy := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "a"}}
			policy.Spec = policyapi.RateLimitPolicySpec{Axis: tc.axis, Limit: new(int64(1)), Window: "1m", Identifier: tc.own}
			set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, identity)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(tc.want, set.Rules[0].Identifier); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func mustCompile(t rapid.TB, policy policyapi.RateLimitPolicy) rules.Set {
	t.Helper()
	set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, testIdentity())
	if len(problems) > 0 {
		t.Fatalf("unexpected problems: %v", problems)
	}
	return set
}

// testHashKey returns the key with which the tests of this package hash secrets.
func testHashKey() *limiter.HashKey {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		panic(err)
	}
	return key
}

func testIdentity() compile.Identity { return compile.DefaultIdentity().WithHashKey(testHashKey()) }

// A policy takes over the counters of another one when that is deleted.
func TestCompile_HandsCountersOver(t *testing.T) {
	before := policytest.Policy(t, "day", `{axis: Tenant, limit: 10, window: 1d}`)
	after := policytest.Policy(t, "a-daily", `{axis: Tenant, limit: 10, window: 1d, counterName: day}`)
	before.CreationTimestamp, after.CreationTimestamp = time.Unix(1, 0), time.Unix(2, 0)
	keyOf := func(set rules.Set) string {
		t.Helper()
		if len(set.Rules) != 1 {
			t.Fatalf("%d rules, want 1", len(set.Rules))
		}
		keys, err := set.Rules[0].KeySpace("weir:")
		if err != nil {
			t.Fatal(err)
		}
		return keys.Key("acme", "")
	}
	own := keyOf(mustCompile(t, before))
	set, problems := compile.Compile([]policyapi.RateLimitPolicy{after, before}, testIdentity())
	if set.Rules[0].Policy != compile.Name(&before) || keyOf(set) != own {
		t.Errorf("with both policies, %s is enforced with key %s, want the older one", set.Rules[0].Policy, keyOf(set))
	}
	if len(problems) != 1 || problems[0].Policy != compile.Name(&after) || problems[0].Reason != policyapi.ReasonConflicted || problems[0].Field != "spec.counterName" {
		t.Errorf("problems %v, want that of the new policy", problems)
	}
	before.DeletionTimestamp = new(time.Unix(3, 0))
	set, problems = compile.Compile([]policyapi.RateLimitPolicy{after, before}, testIdentity())
	if len(problems) > 0 || set.Rules[0].Policy != compile.Name(&after) || keyOf(set) != own {
		t.Errorf("without the old policy, %s is enforced with key %s and problems %v, want the new policy with key %s", set.Rules[0].Policy, keyOf(set), problems, own)
	}
}

// The validation of a policy does not know the identity table of each Limiter. Limiters reject a rule set with one invalid rule, so that a policy could
// stop the changes of all others.
func TestCompile_AFallbackCanBeTheSourceInTheIdentityTable(t *testing.T) {
	policy := policytest.Policy(t, "day", `{axis: Tenant, limit: 10, window: 1d, identifier: {fallbacks: [{header: X-Org}, {query: org}]}}`)
	identity := compile.DefaultIdentity()
	identity.Tenant.Name = "x-org"
	set, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, identity)
	if len(problems) > 0 || len(set.Rules) != 1 || set.Rules[0].DescribeSources() != "header x-org or query parameter org or client address" {
		t.Fatalf("problems %v, rules %+v", problems, set.Rules)
	}
	if _, err := matching.NewIndex(set, "sha256:test", "weir:"); err != nil {
		t.Error(err)
	}
}
