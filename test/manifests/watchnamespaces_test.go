package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/weir-dev/weir/test/manifests/tool"
)

// clusterPermissions returns what the operator can do in all namespaces.
func clusterPermissions(t *testing.T, set tool.Set) []string {
	t.Helper()
	roles := tool.All[rbacv1.ClusterRole](t, set, "ClusterRole")
	var all []string
	for _, binding := range tool.All[rbacv1.ClusterRoleBinding](t, set, "ClusterRoleBinding") {
		all = append(all, permissions(roles[binding.RoleRef.Name].Rules)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// With permissions to read every Secret, or to create a Deployment or a ServiceAccount in every namespace, the operator would be a cluster
// administrator.
func TestWatchNamespaces_LeavesOnlyTheseClusterWidePermissions(t *testing.T) {
	want := []string{
		"create events.events.k8s.io ", // about policies
		"create subjectaccessreviews.authorization.k8s.io ",
		"create tokenreviews.authentication.k8s.io ",
		"get clusterroles.rbac.authorization.k8s.io weir-operator-throttle", // the owner of weir-throttle
		"get validatingwebhookconfigurations.admissionregistration.k8s.io weir-policies",
		"patch events.events.k8s.io ",
		"patch validatingwebhookconfigurations.admissionregistration.k8s.io weir-policies",
	}
	for _, verb := range []string{"get", "list", "watch"} {
		for _, resource := range []string{
			"clusterratelimitpolicies.weir.dev", "namespaces.", "ratelimitpolicies.weir.dev", "gateways.gateway.networking.k8s.io",
			"grpcroutes.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io", "listenersets.gateway.networking.k8s.io", "referencegrants.gateway.networking.k8s.io",
		} {
			want = append(want, verb+" "+resource+" ")
		}
	}
	for _, resource := range []string{"clusterratelimitpolicies/status.weir.dev", "ratelimitpolicies/status.weir.dev"} {
		want = append(want, "patch "+resource+" ")
	}
	for _, verb := range []string{"create", "delete", "get", "list", "patch", "update", "watch"} {
		want = append(want, verb+" validatingwebhookconfigurations.admissionregistration.k8s.io weir-throttle")
	}
	slices.Sort(want)
	for name, set := range map[string]tool.Set{
		"chart": rendered(t, "--set=watchNamespaces={limits,edge}"), "manifests": tool.Kustomize(t, "test/manifests/testdata/watch-namespaces"),
	} {
		if diff := cmp.Diff(want, clusterPermissions(t, set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if all := strings.Join(clusterPermissions(t, rendered(t)), "\n"); !strings.Contains(all, "get secrets. ") {
		t.Error("by default, Limiters in all namespaces can name Secrets, and the operator cannot read them")
	}
}

func TestWatchNamespaces_GrantsTheRestInEachNamespace(t *testing.T) {
	all := permissions(roles(t)["ClusterRole weir-operator-limiters"])
	for values, secret := range map[string]string{"watchNamespaces={limits,edge}": "", "watchNamespaces={limits,edge},limiterSecrets={redis}": "redis"} {
		text, err := template(t, "--set="+values)
		if err != nil {
			t.Fatal(err)
		}
		set := tool.Objects(t, text)
		want := slices.Clone(all)
		want[slices.Index(want, "get secrets. ")] = "get secrets. " + secret
		for _, namespace := range []string{"limits", "edge"} {
			role, binding := set["Role "+namespace+"/weir-operator-limiters"], set["RoleBinding "+namespace+"/weir-operator-limiters"]
			if role == nil || binding == nil {
				t.Fatalf("%s: no Role or no RoleBinding in namespace %s", values, namespace)
			}
			one := tool.Set{"Role": role, "RoleBinding": binding}
			if diff := cmp.Diff(want, permissions(tool.All[rbacv1.Role](t, one, "Role")["weir-operator-limiters"].Rules)); diff != "" {
				t.Errorf("%s: Role in %s (-want +got):\n%s", values, namespace, diff)
			}
			bound := tool.All[rbacv1.RoleBinding](t, one, "RoleBinding")["weir-operator-limiters"]
			if bound.RoleRef.Kind != "Role" || bound.RoleRef.Name != "weir-operator-limiters" ||
				!slices.Equal(bound.Subjects, []rbacv1.Subject{{Kind: "ServiceAccount", Name: operator, Namespace: installed}}) {
				t.Errorf("%s: RoleBinding in %s: %+v", values, namespace, bound)
			}
		}
	}
}

// TestLimiterSecrets_RestrictTheClusterRoleToo names the Secrets of Limiters in all namespaces.
func TestLimiterSecrets_RestrictTheClusterRoleToo(t *testing.T) {
	got := clusterPermissions(t, rendered(t, "--set=limiterSecrets={redis,redis-tls}"))
	if slices.Contains(got, "get secrets. ") || !slices.Contains(got, "get secrets. redis") || !slices.Contains(got, "get secrets. redis-tls") {
		t.Errorf("permissions:\n%s", strings.Join(got, "\n"))
	}
}
