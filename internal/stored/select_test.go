package stored_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
)

func named(namespace, name string, labels ...string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}}
	for _, label := range labels {
		meta.Labels[label] = "yes"
	}
	return meta
}

func TestSelectedBy_SelectsByLabelsOfPoliciesAndNamespaces(t *testing.T) {
	all := stored.Policies{
		Namespaced: []*v1alpha1.RateLimitPolicy{
			{ObjectMeta: named("shop", "marked", "edge")},
			{ObjectMeta: named("shop", "plain")},
			{ObjectMeta: named("bank", "marked", "edge")},
			{ObjectMeta: named("unknown", "marked", "edge")},
		},
		Cluster: []*v1alpha1.ClusterRateLimitPolicy{{ObjectMeta: named("", "marked", "edge")}, {ObjectMeta: named("", "plain")}},
		Namespaces: []compile.Namespace{
			{Name: "shop", Labels: map[string]string{"team": "retail"}}, {Name: "bank", Labels: map[string]string{"team": "money"}},
		},
	}
	edge := &metav1.LabelSelector{MatchLabels: map[string]string{"edge": "yes"}}
	retail := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "retail"}}
	allPolicies := []string{"_cluster/marked", "_cluster/plain", "shop/marked", "shop/plain", "bank/marked", "unknown/marked"}
	for name, c := range map[string]struct {
		spec v1alpha1.LimiterSpec
		want []string
	}{
		"no selectors select all policies":                 {v1alpha1.LimiterSpec{}, allPolicies},
		"empty selectors select all policies":              {v1alpha1.LimiterSpec{PolicySelector: &metav1.LabelSelector{}, PolicyNamespaceSelector: &metav1.LabelSelector{}}, allPolicies},
		"a policy selector selects by label of the policy": {v1alpha1.LimiterSpec{PolicySelector: edge}, []string{"_cluster/marked", "shop/marked", "bank/marked", "unknown/marked"}},
		"a namespace selector selects by label of the namespace, and all cluster policies": {
			v1alpha1.LimiterSpec{PolicyNamespaceSelector: retail}, []string{"_cluster/marked", "_cluster/plain", "shop/marked", "shop/plain"},
		},
		"both selectors must match": {v1alpha1.LimiterSpec{PolicySelector: edge, PolicyNamespaceSelector: retail}, []string{"_cluster/marked", "shop/marked"}},
	} {
		t.Run(name, func(t *testing.T) {
			selected, err := all.SelectedBy(&c.spec)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range selected.Cluster {
				got = append(got, stored.ClusterName(selected.Cluster[i]))
			}
			for i := range selected.Namespaced {
				got = append(got, stored.Name(selected.Namespaced[i]))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(selected.Namespaces) != 2 {
				t.Errorf("%d namespaces are kept, want 2", len(selected.Namespaces))
			}
		})
	}
}

func TestSelectedBy_NamesTheFieldOfAnInvalidSelector(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for want, spec := range map[string]v1alpha1.LimiterSpec{
		`spec.policySelector: "Near" is not a valid label selector operator`:          {PolicySelector: bad},
		`spec.policyNamespaceSelector: "Near" is not a valid label selector operator`: {PolicyNamespaceSelector: bad},
	} {
		if _, err := (stored.Policies{}).SelectedBy(&spec); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
