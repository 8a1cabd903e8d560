package compile_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

// anyPolicy draws good and bad policies with so few names that some are the same.
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
			Axis:        rapid.SampledFrom([]v1alpha1.Axis{"IP", "Tenant", "User", "APIKey", "Endpoint"}).Draw(t, "axis"),
			Limit:       rapid.Int64Range(1, 1_000_000).Draw(t, "limit"),
			Window:      v1alpha1.Window(rapid.StringMatching(`[1-9]d|[1-9][0-9]?[hms]|1h30m`).Draw(t, "window")),
			Algorithm:   rapid.SampledFrom([]v1alpha1.Algorithm{"", "SlidingWindowLog", "SlidingWindowCounter"}).Draw(t, "algorithm"),
			Enforcement: rapid.SampledFrom([]v1alpha1.Enforcement{"", "Enforce", "Shadow"}).Draw(t, "enforcement"),

			OnStoreFailure: rapid.SampledFrom([]v1alpha1.StoreFailure{"", "Local", "Allow", "Deny"}).Draw(t, "on store failure"),
		}
		if policy.Spec.Axis != v1alpha1.AxisEndpoint {
			policy.Spec.Scope = rapid.SampledFrom([]v1alpha1.Scope{"", "Policy", "Endpoint"}).Draw(t, "scope")
			policy.Spec.Identifier = identifier().Draw(t, "identifier")
		}
		if rapid.Bool().Draw(t, "has a match") {
			policy.Spec.Match = &v1alpha1.Match{HTTP: httpMatch().Draw(t, "match")}
		}
		return policy
	})
}

func identifier() *rapid.Generator[*v1alpha1.Identifier] {
	return rapid.SampledFrom([]*v1alpha1.Identifier{
		nil,
		{Header: new(v1alpha1.HeaderName("X-Who"))},
		{Query: new("who")},
		{Cookie: new("sid")},
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
		}
	})
}

// badPolicy draws policies with one or more faults.
func badPolicy() *rapid.Generator[v1alpha1.RateLimitPolicy] {
	faults := []func(*v1alpha1.RateLimitPolicySpec){
		func(s *v1alpha1.RateLimitPolicySpec) { s.Axis = "Planet" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Axis = "" },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Limit = 0 },
		func(s *v1alpha1.RateLimitPolicySpec) { s.Limit = 1_000_000_001 },
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
	}
	return rapid.Custom(func(t *rapid.T) v1alpha1.RateLimitPolicy {
		policy := goodPolicy().Draw(t, "policy")
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(faults)-1), 1, 3, rapid.ID).Draw(t, "faults") {
			faults[i](&policy.Spec)
		}
		return policy
	})
}

// FuzzCompile throws any text at every text field: Compile must say rule or problem, and a limiter must take the rules.
func FuzzCompile(f *testing.F) {
	f.Add("Tenant", int64(100), "1d", "SlidingWindowLog", "X-Tenant", "Exact", "/v1", "api.shop.example", "GET")
	f.Add("IP", int64(-1), "9999999h", "", "x y", "RegularExpression", `\Qa`, "*.", "get")
	f.Add("APIKey", int64(1), "0d", "", "", "RegularExpression", `a)|(?:b`, "*.*.a", "\xff")
	f.Add("User", int64(1), "1s", "", "k", "PathPrefix", "/../..", "\u212a.example", "")
	f.Fuzz(func(t *testing.T, axis string, limit int64, window, algorithm, name, kind, value, host, method string) {
		policy := v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "fuzz"}}
		policy.Spec = v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.Axis(axis), Limit: limit, Window: v1alpha1.Window(window), Algorithm: v1alpha1.Algorithm(algorithm),
			Identifier: &v1alpha1.Identifier{Header: new(v1alpha1.HeaderName(name))},
			Match: &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{
				Hosts:   []v1alpha1.Host{v1alpha1.Host(host)},
				Paths:   []v1alpha1.PathMatch{{Type: v1alpha1.PathMatchType(kind), Value: value}},
				Methods: []v1alpha1.Method{v1alpha1.Method(method)},
				Headers: []v1alpha1.HeaderMatch{{Name: v1alpha1.HeaderName(name), Type: v1alpha1.HeaderMatchType(kind), Value: &value}},
			}},
		}
		set, problems := compile.Compile([]v1alpha1.RateLimitPolicy{policy}, compile.DefaultIdentity())
		if (len(set.Rules) == 1) == (len(problems) > 0) {
			t.Fatalf("neither or both: %v, %v", set, problems)
		}
		if _, err := rules.NewIndex(set, "sha256:test", "weir:"); err != nil {
			t.Fatalf("a limiter refuses the Set: %v", err)
		}
	})
}
