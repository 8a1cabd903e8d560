package selection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/stored"
)

var compiler = Compiler{KeyPrefix: "weir:"}

func limiterAt(generation int64) *v1alpha1.Limiter {
	return &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "default", UID: "limiter", Generation: generation}}
}

// policy returns a policy with that limit a minute.
func policy(name string, generation, limit int64) v1alpha1.RateLimitPolicy {
	return v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: generation},
		Spec:       v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(limit), Window: "1m", Algorithm: v1alpha1.FixedWindow},
	}
}

// invalidPolicy returns a policy with a regular expression that does not compile.
func invalidPolicy(name string) v1alpha1.RateLimitPolicy {
	p := policy(name, 1, 10)
	p.Spec.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Paths: []v1alpha1.PathMatch{{Type: v1alpha1.PathRegularExpression, Value: "("}}}}
	return p
}

func policies(all ...v1alpha1.RateLimitPolicy) stored.Policies {
	return stored.Policies{Namespaced: stored.Pointers(all)}
}

func TestCompile_ReturnsTheSameRuleSetUntilAPolicyOrTheLimiterChanges(t *testing.T) {
	first := compiler.Compile(nil, limiterAt(1), policies(policy("daily", 1, 10)), Hashes{NamespacesHash: 1})
	for name, test := range map[string]struct {
		limiter    *v1alpha1.Limiter
		policies   stored.Policies
		namespaces uint64
		same       bool
	}{
		"nothing changed":               {limiterAt(1), policies(policy("daily", 1, 10)), 1, true},
		"a namespace that no rule uses": {limiterAt(1), policies(policy("daily", 1, 10)), 2, true},
		"an edited policy":              {limiterAt(1), policies(policy("daily", 2, 10)), 1, false},
		"an edited Limiter":             {limiterAt(2), policies(policy("daily", 1, 10)), 1, false},
		"another policy":                {limiterAt(1), policies(policy("hourly", 1, 10)), 1, false},
		"one more policy":               {limiterAt(1), policies(policy("daily", 1, 10), policy("hourly", 1, 10)), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compiler.Compile(first, test.limiter, test.policies, Hashes{NamespacesHash: test.namespaces}); (got == first) != test.same {
				t.Errorf("the same rule set: %v, want %v", got == first, test.same)
			}
		})
	}
}

func TestCompile_ReportsTheProblemsOfAnInvalidPolicyAndCompilesTheOthers(t *testing.T) {
	set := compiler.Compile(nil, limiterAt(1), policies(policy("daily", 3, 10), invalidPolicy("bad")), Hashes{})
	if len(set.Rules) != 1 || *set.Rules["shop/daily"].Effective.Rates[0].Limit != 10 {
		t.Errorf("rules %+v", set.Rules)
	}
	if problems := set.Problems[Key{Name: "shop/bad"}]; len(problems) != 1 || problems[0].Field != "spec.match.http.paths[0].value" {
		t.Errorf("problems %+v", set.Problems)
	}
	if diff := cmp.Diff(map[types.UID]int64{"daily": 3, "bad": 1}, set.Policies); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
}

func TestKeepPrevious_OmitsThePoliciesThatDoNotCompile(t *testing.T) {
	all := policies(policy("daily", 1, 10), invalidPolicy("bad"))
	set := compiler.Compile(nil, limiterAt(1), all, Hashes{})
	kept := set.KeepPrevious(List(all))
	if diff := cmp.Diff(map[types.UID]int64{"daily": 1}, kept.Policies); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	if kept.Revision != set.Revision || len(kept.Problems) != 0 {
		t.Errorf("revision %s, want %s; problems %+v, want none", kept.Revision, set.Revision, kept.Problems)
	}
	if len(set.Policies) != 2 || len(set.Problems) != 1 {
		t.Error("the previous rule set was changed")
	}
	if kept.KeepPrevious(List(all)) != kept {
		t.Error("the second call returned another rule set")
	}
}

func TestRestore_FindsThePoliciesAndTheEditedOnes(t *testing.T) {
	set := compiler.Compile(nil, limiterAt(1), policies(policy("daily", 1, 10), policy("hourly", 1, 10)), Hashes{})
	now := Inputs{Policies: policies(policy("daily", 2, 10), policy("hourly", 2, 99), policy("new", 1, 10))}
	restored, err := compiler.Restore(limiterAt(2), now, archived(t, set), set.Revision)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[types.UID]int64{"daily": 2, "hourly": 0}, restored.Policies); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(set.RuleRevisions(), restored.RuleRevisions()); diff != "" {
		t.Errorf("rules (-published +restored):\n%s", diff)
	}
	if restored.Revision != set.Revision || restored.Limiter != (LimiterVersion{"limiter", 2}) {
		t.Errorf("revision %s of %+v", restored.Revision, restored.Limiter)
	}
	if _, err := compiler.Restore(limiterAt(2), now, archived(t, set)[:len(set.Data)/2], set.Revision); err == nil {
		t.Error("damaged data was restored")
	}
}

func TestUnselected_CompilesThePoliciesThatNoLimiterSelects(t *testing.T) {
	in := Inputs{Policies: policies(invalidPolicy("selected"), invalidPolicy("bad"))}
	var u Unselected
	u.Compile(in, []*RuleSet{{Policies: map[types.UID]int64{"selected": 1}}})
	if len(u.Problems(Key{Name: "shop/bad"})) != 1 || u.Problems(Key{Name: "shop/selected"}) != nil {
		t.Errorf("problems %+v", u.problems)
	}
	u.Compile(in, []*RuleSet{{Policies: map[types.UID]int64{"selected": 1, "bad": 1}}})
	if u.Problems(Key{Name: "shop/bad"}) != nil {
		t.Error("a policy that is selected now still has problems")
	}
}
