package stored_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/exempt"
)

func TestBudgetOf_ReplacesMissingLimitsByDefaults(t *testing.T) {
	spec := v1alpha1.LimiterSpec{PolicyBudget: v1alpha1.PolicyBudget{Total: v1alpha1.BudgetLimits{Rules: new(int64(7))}}}
	want := budget.Budget{
		PerNamespace: budget.Usage{Bytes: 524288, Rules: 1000, Expressions: 100, RegularExpressions: 100},
		Total:        budget.Usage{Bytes: 8388608, Rules: 7, Expressions: 2000, RegularExpressions: 2000},
	}
	if diff := cmp.Diff(want, stored.BudgetOf(&spec)); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
	limits := func(from int64) v1alpha1.BudgetLimits {
		return v1alpha1.BudgetLimits{Bytes: new(from), Rules: new(from + 1), Expressions: new(from + 2), RegularExpressions: new(from + 3)}
	}
	spec.PolicyBudget = v1alpha1.PolicyBudget{PerNamespace: limits(10), Total: limits(20)}
	want = budget.Budget{
		PerNamespace: budget.Usage{Bytes: 10, Rules: 11, Expressions: 12, RegularExpressions: 13},
		Total:        budget.Usage{Bytes: 20, Rules: 21, Expressions: 22, RegularExpressions: 23},
	}
	if diff := cmp.Diff(want, stored.BudgetOf(&spec)); diff != "" {
		t.Errorf("budget with all limits (-want +got):\n%s", diff)
	}
}

func TestIdentityOf_ReturnsTheTableOfALimiter(t *testing.T) {
	var spec v1alpha1.LimiterSpec
	if got := stored.IdentityOf(&spec); got != compile.DefaultIdentity() {
		t.Errorf("a Limiter without an identity table has %+v", got)
	}
	spec.Identity = v1alpha1.IdentityTable{
		IP:     v1alpha1.IPIdentity{IPv6PrefixLength: 56, TrustedProxies: []v1alpha1.CIDR{"10.0.0.0/8"}},
		Tenant: v1alpha1.TenantIdentity{Header: "X-Org", NamespaceLabel: "example.com/Tenant"},
		User:   v1alpha1.UserIdentity{Header: "X-Who"},
		APIKey: v1alpha1.APIKeyIdentity{Header: "X-Key"},
	}
	want := compile.DefaultIdentity()
	want.Tenant.Name, want.User.Name, want.APIKey.Name = "x-org", "x-who", "x-key"
	want.IPv6PrefixLength, want.NamespaceLabel = 56, "example.com/Tenant"
	if got := stored.IdentityOf(&spec); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	spec.Identity.Tenant = v1alpha1.TenantIdentity{NamespaceAnnotation: "tenant"}
	want.Tenant.Name, want.NamespaceLabel, want.NamespaceAnnotation = "x-tenant-id", "", "tenant"
	if got := stored.IdentityOf(&spec); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestExemptionsOf_AddToWhatIsAlwaysExempt(t *testing.T) {
	limiter := &v1alpha1.Limiter{}
	limiter.Namespace = "limits"
	limiter.Spec.KubernetesThrottle = &v1alpha1.KubernetesThrottle{
		AdditionalExemptNamespaces: []v1alpha1.NamespaceName{"rook", "limits"}, AdditionalExemptUsers: []v1alpha1.KubernetesUser{"eve", "bob"},
		AdditionalExemptGroups: []v1alpha1.KubernetesUser{"staff"},
	}
	want := exempt.Lists{ // no weir-system: here the name means nothing
		Namespaces: []string{"kube-node-lease", "kube-public", "kube-system", "limits", "rook"},
		Users:      []string{"bob", "eve", "system:apiserver", "system:cloud-controller-manager", "system:kube-controller-manager", "system:kube-proxy", "system:kube-scheduler"},
		Groups: []string{
			"kubeadm:cluster-admins", "staff", "system:bootstrappers", "system:masters", "system:nodes", "system:serviceaccounts:kube-node-lease",
			"system:serviceaccounts:kube-public", "system:serviceaccounts:kube-system", "system:serviceaccounts:limits", "system:serviceaccounts:rook",
		},
	}
	if diff := cmp.Diff(want, stored.ExemptionsOf(limiter)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	limiter.Spec.KubernetesThrottle = nil
	if without := stored.ExemptionsOf(limiter); slices.Contains(without.Namespaces, "rook") || !slices.Contains(without.Namespaces, "limits") {
		t.Errorf("%v", without)
	}
}
