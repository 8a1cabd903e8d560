package manifests

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/weir-dev/weir/test/manifests/tool"
)

// roles returns the rules of every Role and ClusterRole of config/default.
func roles(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	set := tool.Kustomize(t, "config/default")
	all := map[string][]rbacv1.PolicyRule{}
	for name, role := range tool.All[rbacv1.ClusterRole](t, set, "ClusterRole") {
		all["ClusterRole "+name] = role.Rules
	}
	for name, role := range tool.All[rbacv1.Role](t, set, "Role") {
		all["Role "+name] = role.Rules
	}
	return all
}

// permissions returns single permissions, such as "get secrets. " or "update leases.coordination.k8s.io weir-operator".
func permissions(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all = append(all, fmt.Sprintf("%s %s.%s %s", verb, resource, group, name))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestRoles_HaveNoWildcardAndDoNotEscalate(t *testing.T) {
	for name, rules := range roles(t) {
		for _, rule := range rules {
			if len(rule.NonResourceURLs) > 0 && name != "ClusterRole weir-metrics-viewer" {
				t.Errorf("%s: %v", name, rule.NonResourceURLs)
			}
		}
		for _, permission := range permissions(rules) {
			verb, _, _ := strings.Cut(permission, " ")
			if strings.Contains(permission, "*") || slices.Contains([]string{"bind", "escalate", "impersonate"}, verb) {
				t.Errorf("%s: %s", name, permission)
			}
		}
	}
}

// TestLimitersRole_EqualsTheRoleOfTheControllerTests compares with the role that the tests of controllers/deployment use.
func TestLimitersRole_EqualsTheRoleOfTheControllerTests(t *testing.T) {
	text, err := os.ReadFile(tool.Root(t, "controllers/deployment/testdata/role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tested := tool.All[rbacv1.ClusterRole](t, tool.Objects(t, string(text)), "ClusterRole")["weir-operator-limiters"].Rules
	// The API server of these tests has PodMonitors only in some tests, so their role does not include them.
	tested = append(tested, rbacv1.PolicyRule{
		APIGroups: []string{"monitoring.coreos.com"}, Resources: []string{"podmonitors"},
		Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
	})
	if diff := cmp.Diff(permissions(tested), permissions(roles(t)["ClusterRole weir-operator-limiters"])); diff != "" {
		t.Errorf("-controllers/deployment/testdata/role.yaml +config/rbac/limiters_role.yaml:\n%s", diff)
	}
}

func TestBindings_BindTheOperatorToExistingRoles(t *testing.T) {
	set := tool.Kustomize(t, "config/default")
	if set["ServiceAccount "+installed+"/"+operator] == nil {
		t.Error("config/default has no ServiceAccount for the operator")
	}
	bound := map[string]bool{}
	check := func(binding string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		bound[ref.Kind+" "+ref.Name] = true
		if _, ok := roles(t)[ref.Kind+" "+ref.Name]; !ok && binding != "weir-operator-authentication" { // a role of Kubernetes
			t.Errorf("%s: %s %s does not exist", binding, ref.Kind, ref.Name)
		}
		if want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: operator, Namespace: installed}}; !slices.Equal(subjects, want) {
			t.Errorf("%s: subjects %v", binding, subjects)
		}
	}
	for name, b := range tool.All[rbacv1.ClusterRoleBinding](t, set, "ClusterRoleBinding") {
		check(name, b.RoleRef, b.Subjects)
	}
	for name, b := range tool.All[rbacv1.RoleBinding](t, set, "RoleBinding") {
		check(name, b.RoleRef, b.Subjects)
	}
	for role := range maps.Keys(roles(t)) {
		atRunTime := role == "Role weir-limiter-throttle" // to the ServiceAccounts of Limiters, by the operator
		if forOthers := isForUsers(role) || atRunTime; bound[role] == forOthers {
			t.Errorf("%s: bound: %v", role, bound[role])
		}
	}
}

func isForUsers(role string) bool {
	for _, suffix := range []string{"-viewer", "-editor", "-observer", "-responder", "-admin-access"} {
		if strings.HasSuffix(role, suffix) {
			return true
		}
	}
	return false
}

func TestAdminRoles_SeparateReadingFromResponding(t *testing.T) {
	all := roles(t)
	for role, want := range map[string][]string{
		"ClusterRole weir-observer": {
			"get clusterratelimitpolicies.weir.dev ", "get limiters.weir.dev ", "get limiters/bypasses.weir.dev ", "get limiters/counters.weir.dev ", "get limiters/denials.weir.dev ",
			"get limiters/explanations.weir.dev ", "get limiters/redis.weir.dev ", "get limiters/rules.weir.dev ", "get limiters/top.weir.dev ", "get ratelimitpolicies.weir.dev ",
			"get validatingwebhookconfigurations.admissionregistration.k8s.io weir-policies",
			"get validatingwebhookconfigurations.admissionregistration.k8s.io weir-throttle",
			"list clusterratelimitpolicies.weir.dev ", "list deployments.apps ", "list limiters.weir.dev ", "list ratelimitpolicies.weir.dev ",
		},
		"ClusterRole weir-responder": {"create limiters/bypasses.weir.dev ", "create limiters/resets.weir.dev ", "delete limiters/bypasses.weir.dev "},
	} {
		if diff := cmp.Diff(want, permissions(all[role])); diff != "" {
			t.Errorf("%s: -want +got:\n%s", role, diff)
		}
	}
}

func TestAggregatedRoles_GrantUsersOnlyPoliciesOfTheirNamespace(t *testing.T) {
	const label = "rbac.authorization.k8s.io/aggregate-to-"
	with := map[string][]string{} // role for users: the default roles to which it is aggregated
	for name, role := range tool.All[rbacv1.ClusterRole](t, tool.Kustomize(t, "config/default"), "ClusterRole") {
		for _, to := range []string{"admin", "edit", "view"} {
			if role.Labels[label+to] == "true" {
				with[name] = append(with[name], to)
			}
		}
		if !strings.HasSuffix(name, "-viewer") {
			continue
		}
		for _, permission := range permissions(role.Rules) {
			if verb, _, _ := strings.Cut(permission, " "); !slices.Contains([]string{"get", "list", "watch"}, verb) {
				t.Errorf("%s: %s", name, permission)
			}
		}
	}
	want := map[string][]string{
		"weir-policy-editor":         {"admin", "edit"},
		"weir-policy-viewer":         {"view"},
		"weir-cluster-policy-viewer": {"view"},
		"weir-limiter-viewer":        {"view"},
	}
	if diff := cmp.Diff(want, with); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestOperator_HasExactlyThesePermissions sends SubjectAccessReviews for the important permissions, and for similar permissions that the
// operator must not have.
func TestOperator_HasExactlyThesePermissions(t *testing.T) {
	c, _ := install(t)
	const webhooks = "validatingwebhookconfigurations"
	for _, q := range []struct {
		verb, group, resource, namespace, name string
		want                                   bool
	}{
		{"patch", "weir.dev", "ratelimitpolicies/status", "shop", "daily", true},
		{"patch", "weir.dev", "ratelimitpolicies", "shop", "daily", false},
		{"delete", "weir.dev", "limiters", "shop", "edge", false},
		{"create", "", "configmaps", "shop", "weir-rules-edge", true},
		{"list", "", "configmaps", "", "", false},
		{"delete", "", "configmaps", "shop", "weir-rules-edge", false},
		{"get", "", "secrets", "shop", "redis", true}, // any Secret that a Limiter names
		{"list", "", "secrets", "", "", false},
		{"list", "", "secrets", installed, "", false},
		{"patch", "", "secrets", "shop", "redis", false},
		{"patch", "", "secrets", installed, "weir-webhook-certificates", true},
		{"create", "", "secrets", installed, "weir-webhook-certificates", true},
		{"create", "", "secrets", installed, "weir-hash-key", true},
		{"get", "", "secrets", installed, "weir-hash-key", true},
		{"patch", "", "secrets", installed, "weir-hash-key", false},
		{"create", "", "secrets", "shop", "weir-limiter-edge-hash-key-0", true},
		{"patch", "", "secrets", "shop", "weir-limiter-edge-hash-key-0", false},
		{"delete", "", "secrets", installed, "weir-webhook-certificates", false},
		{"get", "", "pods", installed, "weir-operator-0", true},
		{"get", "", "pods", "shop", "weir-operator-0", false},
		{"list", "", "pods", installed, "", true}, // to find the replicas of a Limiter
		{"create", "", "pods/portforward", installed, "", false},
		{"create", "events.k8s.io", "events", "shop", "", true},
		{"get", "", "configmaps", "kube-system", "extension-apiserver-authentication", true}, // the CA of client certificates
		{"create", "weir.dev", "limiters/resets", "shop", "edge", false},
		{"create", "weir.dev", "limiters/bypasses", "shop", "edge", false},
		{"list", "", "namespaces", "", "", true},
		{"patch", "", "namespaces", "", "shop", false},
		{"watch", "gateway.networking.k8s.io", "httproutes", "", "", true},
		{"list", "gateway.networking.k8s.io", "referencegrants", "", "", true},
		{"list", "gateway.networking.k8s.io", "listenersets", "", "", true},
		{"patch", "gateway.networking.k8s.io", "httproutes", "shop", "checkout", false},
		{"patch", "gateway.networking.k8s.io", "httproutes/status", "shop", "checkout", false},
		{"get", "gateway.networking.k8s.io", "gatewayclasses", "", "public", false},
		{"update", "coordination.k8s.io", "leases", installed, operator, true},
		{"update", "coordination.k8s.io", "leases", installed, "other", false},
		{"list", "coordination.k8s.io", "leases", installed, operator, true}, // its versions show whether etcd was restored
		{"list", "coordination.k8s.io", "leases", installed, "", false},
		{"get", "coordination.k8s.io", "leases", "kube-system", operator, false},
		{"patch", "apps", "deployments", "shop", "weir-limiter-edge", true},
		{"delete", "apps", "deployments", "shop", "weir-limiter-edge", false},
		{"delete", "monitoring.coreos.com", "podmonitors", "shop", "weir-limiter-edge", true},
		{"patch", "admissionregistration.k8s.io", webhooks, "", "weir-policies", true},
		{"create", "admissionregistration.k8s.io", webhooks, "", "weir-policies", false},
		{"delete", "admissionregistration.k8s.io", webhooks, "", "weir-policies", false},
		{"create", "admissionregistration.k8s.io", webhooks, "", "weir-throttle", true},
		{"delete", "admissionregistration.k8s.io", webhooks, "", "weir-throttle", true},
		{"watch", "admissionregistration.k8s.io", webhooks, "", "weir-throttle", true},
		{"get", "rbac.authorization.k8s.io", "clusterroles", "", "weir-operator-throttle", true}, // owns the webhook configuration
		{"get", "rbac.authorization.k8s.io", "clusterroles", "", "cluster-admin", false},
		{"create", "rbac.authorization.k8s.io", "rolebindings", installed, "weir-limiter-default", true},
		{"update", "rbac.authorization.k8s.io", "rolebindings", installed, "weir-limiter-default", true},
		{"get", "weir.dev", "limiters/throttle", installed, "default", true}, // all that the operator can bind
		{"create", "rbac.authorization.k8s.io", "rolebindings", "shop", "weir-limiter-edge", false},
		{"delete", "rbac.authorization.k8s.io", "rolebindings", installed, "weir-limiter-default", false},
		{"bind", "rbac.authorization.k8s.io", "roles", installed, "weir-limiter-throttle", false},
		{"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", false},
		{"list", "admissionregistration.k8s.io", webhooks, "", "", false},
		{"patch", "admissionregistration.k8s.io", webhooks, "", "other", false},
		{"create", "authentication.k8s.io", "tokenreviews", "", "", true},
		{"create", "authorization.k8s.io", "subjectaccessreviews", "", "", true},
	} {
		resource, sub, _ := strings.Cut(q.resource, "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + installed + ":" + operator,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: q.verb, Group: q.group, Resource: resource, Subresource: sub, Namespace: q.namespace, Name: q.name,
			},
		}}
		if err := c.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != q.want {
			t.Errorf("%s %s %s/%s: allowed: %v", q.verb, q.resource, q.namespace, q.name, review.Status.Allowed)
		}
	}
}
