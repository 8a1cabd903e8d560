package selection

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/stored"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// both returns policies of both kinds.
func both(namespaced []v1alpha1.RateLimitPolicy, cluster ...v1alpha1.ClusterRateLimitPolicy) stored.Policies {
	return stored.Policies{Namespaced: stored.Pointers(namespaced), Cluster: stored.Pointers(cluster)}
}

// A namespace can have the name cluster.
func TestList_DistinguishesPoliciesOfTheSameName(t *testing.T) {
	twin := policy("floor", 2, 10)
	twin.Namespace, twin.UID = "cluster", "twin"
	of := both([]v1alpha1.RateLimitPolicy{twin}, clusterPolicy("floor", 1, 10))
	list := List(of)
	if len(list) != 2 || list[0].Key() != (Key{"_cluster/floor", true}) || list[1].Key() != (Key{"cluster/floor", false}) {
		t.Fatalf("keys %+v", list)
	}
	if list[0].Status != &of.Cluster[0].Status || list[1].Status != &of.Namespaced[0].Status || list[1].GetUID() != "twin" {
		t.Error("a policy has the status of another")
	}
}

func TestKinds_AreThoseOfPolicies(t *testing.T) {
	kinds := Kinds()
	if len(kinds) != 2 {
		t.Fatalf("%d kinds", len(kinds))
	}
	_, namespaced := kinds[0].(*v1alpha1.RateLimitPolicy)
	if _, ofCluster := kinds[1].(*v1alpha1.ClusterRateLimitPolicy); !namespaced || !ofCluster {
		t.Errorf("kinds %T and %T", kinds[0], kinds[1])
	}
}

// Rules that select Kubernetes requests by namespace are compiled again when a namespace changes.
func TestCompile_FollowsNamespacesIfARuleUsesThem(t *testing.T) {
	uses := policy("uses", 1, 10)
	uses.Spec.Axis = v1alpha1.AxisUser
	uses.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: []v1alpha1.KubernetesResources{{APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"}}}}}
	first := compiler.Compile(nil, limiterAt(1), policies(policy("daily", 1, 10), uses), Hashes{NamespacesHash: 7})
	if len(first.Problems) > 0 {
		t.Fatalf("problems %+v", first.Problems)
	}
	if compiler.Compile(first, limiterAt(1), policies(policy("daily", 1, 10), uses), Hashes{NamespacesHash: 7}) != first {
		t.Error("compiled again although nothing has changed")
	}
	if compiler.Compile(first, limiterAt(1), policies(policy("daily", 1, 10), uses), Hashes{NamespacesHash: 8}) == first {
		t.Error("not compiled again after a namespace has changed")
	}
}

func TestCompile_SharesTheRulesThatHaveNotChanged(t *testing.T) {
	other := compiler
	other.KeyPrefix = "another:"
	first := other.Compile(nil, limiterAt(1), policies(policy("daily", 1, 10), policy("hourly", 1, 10)), Hashes{})
	second := compiler.Compile(first, limiterAt(1), policies(policy("daily", 1, 10), policy("hourly", 2, 99)), Hashes{})
	if got := second.Rules["shop/daily"]; !reflect.DeepEqual(got, first.Rules["shop/daily"]) {
		t.Errorf("the rule that has not changed is %+v", got)
	}
	if got := second.Rules["shop/hourly"].Effective; *got.Rates[0].Limit != 99 || got.Rates[0].Window != "1m" || !strings.HasPrefix(got.Rates[0].KeyPattern, "weir:") {
		t.Errorf("the edited rule is %+v", got)
	}
}

func TestCompile_CollectsAllProblemsOfAPolicy(t *testing.T) {
	bad := invalidPolicy("bad")
	bad.Spec.Match.HTTP.Paths = append(bad.Spec.Match.HTTP.Paths, v1alpha1.PathMatch{Type: v1alpha1.PathRegularExpression, Value: "["})
	clusterBad := clusterPolicy("bad", 1, 10)
	clusterBad.Spec.Match = bad.Spec.Match
	all := both([]v1alpha1.RateLimitPolicy{bad}, clusterBad)
	set := compiler.Compile(nil, limiterAt(1), all, Hashes{})
	for _, key := range []Key{{"shop/bad", false}, {"_cluster/bad", true}} {
		if n := len(set.Problems[key]); n != 2 {
			t.Errorf("%d problems of %v, want 2", n, key)
		}
	}
	var u Unselected
	u.Compile(Inputs{Policies: all}, nil)
	if diff := cmp.Diff(set.Problems, u.problems); diff != "" {
		t.Errorf("problems of policies that no Limiter selects (-selected +unselected):\n%s", diff)
	}
}

// overriding returns a ClusterRateLimitPolicy that applies only by default, and two RateLimitPolicies that replace it.
func overriding() stored.Policies {
	floor := clusterPolicy("floor", 1, 10)
	floor.Spec.Precedence = v1alpha1.PrecedenceDefault
	floor.Spec.Domains = []v1alpha1.Domain{"shop", "bank"}
	shop, bank := policy("daily", 1, 10), policy("daily", 1, 10)
	shop.Spec.Replaces, bank.Spec.Replaces = []v1alpha1.PolicyName{"floor", "ceiling"}, []v1alpha1.PolicyName{"floor"}
	bank.Namespace, bank.UID = "bank", "bank-daily"
	ceiling := clusterPolicy("ceiling", 1, 10)
	ceiling.Spec.Precedence, ceiling.Spec.Domains = v1alpha1.PrecedenceDefault, []v1alpha1.Domain{"shop"}
	return both([]v1alpha1.RateLimitPolicy{shop, bank}, floor, ceiling)
}

func TestCompile_SummarizesTheOverridesOfEachPolicy(t *testing.T) {
	set := compiler.Compile(nil, limiterAt(1), overriding(), Hashes{})
	result := overriding().Compile(compile.DefaultIdentity())
	if len(result.Overrides) != 3 || len(set.Overridden) != 2 {
		t.Fatalf("overridden %+v, of the overrides %+v", set.Overridden, result.Overrides)
	}
	for policy, n := range map[string]int{"_cluster/floor": 2, "_cluster/ceiling": 1} {
		of := slices.DeleteFunc(slices.Clone(result.Overrides), func(o redundancy.Override) bool { return o.Policy != policy })
		reason, message := redundancy.OverriddenCondition(of)
		if got := set.Overridden[policy]; len(of) != n || got.Reason != reason || got.Message != message || len(got.By) != n || int(got.Domains) != n || reason != v1alpha1.ReasonNamespacePolicy {
			t.Errorf("%s: %+v, want %s: %s", policy, got, reason, message)
		}
	}
}

func TestRestore_FindsClusterPoliciesAndOverrides(t *testing.T) {
	set := compiler.Compile(nil, limiterAt(1), overriding(), Hashes{})
	now := Inputs{Policies: overriding()}
	added := clusterPolicy("new", 1, 5)
	now.Cluster = append(now.Cluster, &added)
	now.Cluster[1].Generation, now.Cluster[1].Spec.Limit = 2, new(int64(11)) // ceiling was edited
	restored, err := compiler.Restore(limiterAt(2), now, archived(t, set), set.Revision)
	if err != nil {
		t.Fatal(err)
	}
	want := map[types.UID]int64{"cluster-floor": 1, "cluster-ceiling": 0, "daily": 1, "bank-daily": 1}
	if diff := cmp.Diff(want, restored.Policies); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(set.Overridden, restored.Overridden); diff != "" {
		t.Errorf("overridden (-published +restored):\n%s", diff)
	}
	if restored.KeepPrevious(List(now.Policies)) != restored {
		t.Error("a restored rule set is not one that was kept")
	}
}

func TestUnselected_CompilesAgainOnlyAfterAChange(t *testing.T) {
	of := func(generation int64) stored.Policies {
		bad := invalidPolicy("bad")
		bad.Generation = generation
		clusterBad := clusterPolicy("bad", 1, 10)
		clusterBad.Spec.Match = bad.Spec.Match
		return both([]v1alpha1.RateLimitPolicy{bad}, clusterBad)
	}
	var u Unselected
	run := func(of stored.Policies) {
		u.Compile(Inputs{Policies: of}, nil)
	}
	mark := Key{"mark", false}
	run(of(1))
	if len(u.Problems(Key{"_cluster/bad", true})) != 1 || len(u.Problems(Key{"shop/bad", false})) != 1 {
		t.Errorf("problems %+v", u.problems)
	}
	u.problems[mark] = nil
	run(of(1))
	if _, kept := u.problems[mark]; !kept {
		t.Error("compiled again although nothing has changed")
	}
	run(of(2))
	if _, kept := u.problems[mark]; kept {
		t.Error("not compiled after an edit")
	}
	u.problems[mark] = nil
	run(stored.Policies{})
	if len(u.problems) != 0 {
		t.Errorf("problems without policies: %+v", u.problems)
	}
}
