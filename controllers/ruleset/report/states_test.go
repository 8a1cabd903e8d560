package report

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter"
)

// The states in test/gitops, which Flux and Argo CD evaluate there, are those that the operator writes.
func TestPolicyStatus_MatchesTheStatesInTestGitops(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	rule := &selection.Rule{Revision: "sha256:5f2c"}
	gone := "dial tcp 10.0.0.7:6379: connect: connection refused"
	refused := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	noNamespaced := LimiterState{Limiter: types.NamespacedName{Namespace: "weir-system", Name: "default"}, NotAdmitted: map[types.UID]string{
		"a": "lets only ClusterRateLimitPolicies limit writes: spec.kubernetesThrottle.namespacedPolicies is None",
	}}
	bad := []compile.Problem{{Field: "spec.match.http.paths[0].value", Message: "missing closing ): `/v1/(`"}}
	policies := stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{attachedPolicy("new", 2), attachedPolicy("old", 1)}), Gateways: &gateway.Objects{}}
	missing := policies.Compile(compile.DefaultIdentity()).Problems[:1]
	policies.Gateways.Routes = []gateway.Route{{Kind: v1alpha1.TargetHTTPRoute, Namespace: "shop", Name: "checkout"}}
	conflicted := policies.Compile(compile.DefaultIdentity()).Problems
	idle := stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{attachedPolicy("old", 1)}), Gateways: policies.Gateways}.Compile(compile.DefaultIdentity()).Unmatched[0]
	contradiction := attachedPolicy("new", 1)
	contradiction.Spec.TargetRefs = nil
	contradiction.Spec.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{CIDRs: []v1alpha1.CIDR{"10.1.0.0/16"}, ExceptCIDRs: []v1alpha1.CIDR{"10.0.0.0/8"}}}
	noMatch := stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{contradiction})}.Compile(compile.DefaultIdentity()).Unmatched[0]
	selecting := attachedPolicy("new", 1)
	selecting.Spec.TargetRefs = nil
	selecting.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{
		Resources:         []v1alpha1.KubernetesResources{{APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"}}},
		NamespaceSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
	}}
	noNamespaces := stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{selecting}), Namespaces: []compile.Namespace{{Name: "shop"}}}.
		Compile(compile.DefaultIdentity()).Unmatched[0]
	elsewhere := attachedPolicy("new", 1)
	elsewhere.Spec.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetGateway, Namespace: new("infra"), Name: "public"}}
	forbidden := stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{elsewhere}), Gateways: policies.Gateways}.Compile(compile.DefaultIdentity()).Problems
	for name, c := range map[string]struct {
		g int64
		o outcome
	}{
		"policy-pending":                  {1, outcome{rule: rule, acknowledged: 1, replicas: 2}},
		"policy-no-replicas":              {1, outcome{rule: rule}},
		"policy-not-selected":             {1, outcome{}},
		"policy-not-admitted":             {1, outcome{notAdmitted: notAdmitted(selection.Policy{Object: refused}, []LimiterState{noNamespaced})}},
		"policy-not-registered":           {1, outcome{rule: rule, enforced: true, webhook: "no pod of the Limiter is ready"}},
		"policy-ready":                    {1, outcome{rule: rule, enforced: true}},
		"policy-enforced":                 {1, outcome{rule: rule, enforced: true, decided: true}},
		"policy-not-reporting":            {1, outcome{rule: rule, enforced: true, notReporting: true}},
		"policy-edited-ready":             {2, outcome{rule: rule, enforced: true}},
		"policy-no-routes":                {1, outcome{rule: rule, enforced: true, unmatched: idle}},
		"policy-no-namespaces":            {1, outcome{rule: rule, enforced: true, unmatched: noNamespaces}},
		"policy-no-match":                 {1, outcome{rule: rule, enforced: true, unmatched: noMatch}},
		"policy-invalid":                  {1, outcome{problems: bad}},
		"policy-target-not-found":         {1, outcome{problems: missing}},
		"policy-ref-not-permitted":        {1, outcome{problems: forbidden}},
		"policy-conflicted":               {1, outcome{problems: conflicted}},
		"policy-many-identifiers":         {1, outcome{rule: rule, enforced: true, degradation: crowded(limiter.NearMemory)}},
		"policy-identifier-overflow":      {1, outcome{rule: rule, enforced: true, degradation: crowded(limiter.OverMaximum)}},
		"policy-partially-programmed":     {1, outcome{rule: rule, enforced: true}},
		"policy-edited-store-unreachable": {2, outcome{rule: rule, acknowledged: 0, replicas: 2, unavailable: gone}},
		"policy-over-budget":              {1, outcome{overBudget: "spec: over the policy budget of the Limiter: this policy needs 832612 bytes, and the older policies of namespace shop leave less of 524288: shorten or delete policies, or raise spec.policyBudget.perNamespace.bytes of the Limiter"}},
		"policy-overridden":               {1, outcome{rule: rule, enforced: true, overridden: overriddenBy(redundancy.Override{Policy: "a", Domain: "a", By: "_cluster/strict", Reason: v1alpha1.ReasonStricterPolicy})}},
		"cluster-overridden":              {1, outcome{rule: rule, enforced: true, overridden: overriddenBy(redundancy.Override{Policy: "a", Domain: "shop", By: "shop/tenant-free", Reason: v1alpha1.ReasonNamespacePolicy})}},
	} {
		data, err := os.ReadFile("../../../test/gitops/testdata/states/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		docs := bytes.Split(data, []byte("\n---\n"))
		var p v1alpha1.RateLimitPolicy
		if err := yaml.Unmarshal(docs[len(docs)-1], &p); err != nil {
			t.Fatal(err)
		}
		if c.o.rule != nil || c.o.overBudget != "" {
			c.o.limiter = types.NamespacedName{Namespace: "weir-system", Name: "default"}
		}
		outcomes := []outcome{c.o}
		if name == "policy-partially-programmed" {
			staging := outcome{rule: rule, limiter: types.NamespacedName{Namespace: "weir-system", Name: "staging"}}
			outcomes = append(outcomes, staging)
		}
		got, _ := policyStatus(c.g, outcomes, v1alpha1.RateLimitPolicyStatus{}, at)
		if diff := cmp.Diff(p.Status, got, cmpopts.IgnoreFields(v1alpha1.RateLimitPolicyStatus{}, "Effective"), cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
			t.Errorf("%s (-file +written)\n%s", name, diff)
		}
	}
}

// attachedPolicy returns a policy for the HTTPRoute shop/checkout.
func attachedPolicy(name string, minute int) v1alpha1.RateLimitPolicy {
	return v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 21, 10, minute, 0, 0, time.UTC))},
		Spec: v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisTenant, Limit: new(int64(100)), Window: "1m", TargetRefs: []v1alpha1.TargetReference{routeRef("checkout")},
		},
	}
}

func overriddenBy(o redundancy.Override) selection.Overridden {
	reason, message := redundancy.OverriddenCondition([]redundancy.Override{o})
	return selection.Overridden{Reason: reason, Message: message, By: stored.OverriddenBy([]redundancy.Override{o}), Domains: 1}
}
