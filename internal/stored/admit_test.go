package stored_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// policiesOfWritesAndRequests returns a policy for writes and one for requests: of two namespaces, and of the cluster.
func policiesOfWritesAndRequests() stored.Policies {
	writes := &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{}}
	all := stored.Policies{Namespaces: []compile.Namespace{{Name: "shop", Labels: map[string]string{"team": "retail"}}, {Name: "bank"}}}
	for _, namespace := range []string{"shop", "bank", ""} {
		for name, match := range map[string]*v1alpha1.Match{"writes": writes, "requests": nil} {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)}
			if namespace == "" {
				policy := v1alpha1.ClusterRateLimitPolicy{ObjectMeta: meta}
				policy.Spec.Match = match
				all.Cluster = append(all.Cluster, &policy)
				continue
			}
			all.Namespaced = append(all.Namespaced, &v1alpha1.RateLimitPolicy{ObjectMeta: meta, Spec: v1alpha1.RateLimitPolicySpec{Match: match}})
		}
	}
	return all
}

func TestSelectedBy_SelectsPoliciesForWritesThatTheLimiterAdmits(t *testing.T) {
	all := policiesOfWritesAndRequests()
	retail := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "retail"}}
	const (
		notCalled = "has no spec.kubernetesThrottle"
		onlyWide  = "lets only ClusterRateLimitPolicies limit writes"
		elsewhere = "does not select namespace "
	)
	for name, test := range map[string]struct {
		throttle *v1alpha1.KubernetesThrottle
		refused  map[types.UID]string // UIDs, and how the reasons begin
	}{
		"API servers do not call the Limiter":  {nil, map[types.UID]string{"shop/writes": notCalled, "bank/writes": notCalled, "/writes": notCalled}},
		"the webhook is disabled":              {&v1alpha1.KubernetesThrottle{Mode: v1alpha1.ThrottleModeDisabled}, map[types.UID]string{"shop/writes": notCalled, "bank/writes": notCalled, "/writes": notCalled}},
		"the webhook is enabled":               {&v1alpha1.KubernetesThrottle{Mode: v1alpha1.ThrottleModeEnforce}, map[types.UID]string{"shop/writes": onlyWide, "bank/writes": onlyWide}},
		"the webhook is enabled by default":    {&v1alpha1.KubernetesThrottle{}, map[types.UID]string{"shop/writes": onlyWide, "bank/writes": onlyWide}},
		"the Limiter admits no namespace":      {&v1alpha1.KubernetesThrottle{NamespacedPolicies: "None", NamespacedPolicySelector: retail}, map[types.UID]string{"shop/writes": onlyWide, "bank/writes": onlyWide}},
		"a selector admits one namespace":      {&v1alpha1.KubernetesThrottle{NamespacedPolicies: "Selected", NamespacedPolicySelector: retail}, map[types.UID]string{"bank/writes": elsewhere + "bank"}},
		"an empty selector admits all":         {&v1alpha1.KubernetesThrottle{NamespacedPolicies: "Selected", NamespacedPolicySelector: &metav1.LabelSelector{}}, nil},
		"without a selector none are admitted": {&v1alpha1.KubernetesThrottle{NamespacedPolicies: "Selected"}, map[types.UID]string{"shop/writes": elsewhere + "shop", "bank/writes": elsewhere + "bank"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.LimiterSpec{KubernetesThrottle: test.throttle}
			selected, err := all.SelectedBy(&spec)
			if err != nil {
				t.Fatal(err)
			}
			got := map[types.UID]bool{}
			for i := range selected.Namespaced {
				got[selected.Namespaced[i].UID] = true
			}
			for i := range selected.Cluster {
				got[selected.Cluster[i].UID] = true
			}
			want := map[types.UID]bool{"shop/requests": true, "bank/requests": true, "/requests": true}
			for _, uid := range []types.UID{"shop/writes", "bank/writes", "/writes"} {
				if _, ok := test.refused[uid]; !ok {
					want[uid] = true
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("selected policies (-want +got):\n%s", diff)
			}
			refused, err := all.NotAdmitted(&spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(test.refused)), slices.Sorted(maps.Keys(refused))); diff != "" {
				t.Errorf("policies that are not admitted (-want +got):\n%s", diff)
			}
			for uid, begin := range test.refused {
				if !strings.HasPrefix(refused[uid], begin) {
					t.Errorf("%s: %q, want %q …", uid, refused[uid], begin)
				}
			}
		})
	}
	if slices.ContainsFunc(all.Namespaced, func(p *v1alpha1.RateLimitPolicy) bool { return p.UID == "" }) ||
		slices.ContainsFunc(all.Cluster, func(p *v1alpha1.ClusterRateLimitPolicy) bool { return p.UID == "" }) {
		t.Error("a selection changes the policies that it selects from")
	}
}

func TestSelectedBy_NamesTheFieldOfAnInvalidAdmission(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	spec := v1alpha1.LimiterSpec{KubernetesThrottle: &v1alpha1.KubernetesThrottle{NamespacedPolicies: "Selected", NamespacedPolicySelector: bad}}
	const want = `spec.kubernetesThrottle.namespacedPolicySelector: "Near" is not a valid label selector operator`
	if _, err := policiesOfWritesAndRequests().SelectedBy(&spec); err == nil || err.Error() != want {
		t.Errorf("SelectedBy: %v, want %s", err, want)
	}
	if _, err := policiesOfWritesAndRequests().NotAdmitted(&spec); err == nil || err.Error() != want {
		t.Errorf("NotAdmitted: %v, want %s", err, want)
	}
	spec = v1alpha1.LimiterSpec{PolicySelector: bad}
	if _, err := policiesOfWritesAndRequests().NotAdmitted(&spec); err == nil || !strings.HasPrefix(err.Error(), "spec.policySelector: ") {
		t.Errorf("NotAdmitted: %v, want the field of the selector", err)
	}
}
