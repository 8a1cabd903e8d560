package registration

import (
	"encoding/base64"
	"maps"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/limiter/exempt"
)

// certificateRequest is an ed25519 request for the common name "node": API servers validate requests.
const certificateRequest = `-----BEGIN CERTIFICATE REQUEST-----
MIGOMEICAQAwDzENMAsGA1UEAwwEbm9kZTAqMAUGAytlcAMhAKP2zQ9a6SRiRC9u
WIT0DFxu/aOBHo1FhVV7BWLdLygToAAwBQYDK2VwA0EACLdw8y3lv03o9/j7yUKx
2whQgtefYfmk7LXWC9T3tbQUz7UZpnkBAf7lEFgyOeSusqtcFdsupJN1nZnoRU+v
BQ==
-----END CERTIFICATE REQUEST-----
`

// requestCertificate creates a CertificateSigningRequest as a joining node does.
func (h *harness) requestCertificate(c client.Client) error {
	return c.Create(h.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"generateName": "node-csr-"},
		"spec": map[string]any{
			"request":    base64.StdEncoding.EncodeToString([]byte(certificateRequest)),
			"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": []any{"client auth", "digital signature"},
		},
	}}, client.DryRunAll)
}

// API servers create these bindings for the components of a cluster. With failurePolicy Fail, a component that is not exempt could not
// write while no limiter answers.
func TestWith_ExemptsEveryUserToWhomKubernetesBindsAWrite(t *testing.T) {
	h := newHarness(t)
	bootstrap := client.MatchingLabels{"kubernetes.io/bootstrapping": "rbac-defaults"}
	var clusterRoles rbacv1.ClusterRoleList
	var clusterBindings rbacv1.ClusterRoleBindingList
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	for _, list := range []client.ObjectList{&clusterRoles, &clusterBindings, &roles, &bindings} {
		h.must(h.kube.List(t.Context(), list, bootstrap))
	}
	rules := map[string][]rbacv1.PolicyRule{} // by kind, namespace and name
	for i := range clusterRoles.Items {
		rules["ClusterRole//"+clusterRoles.Items[i].Name] = clusterRoles.Items[i].Rules
	}
	for i := range roles.Items {
		rules["Role/"+roles.Items[i].Namespace+"/"+roles.Items[i].Name] = roles.Items[i].Rules
	}
	writers := map[rbacv1.Subject]string{} // to the name of one of its roles
	add := func(subjects []rbacv1.Subject, namespace string, ref rbacv1.RoleRef) {
		if ref.Kind == "ClusterRole" {
			namespace = ""
		}
		granted, exists := rules[ref.Kind+"/"+namespace+"/"+ref.Name]
		if !exists {
			t.Errorf("the %s %s of a binding does not exist", ref.Kind, ref.Name)
		}
		if slices.ContainsFunc(granted, mayWrite) {
			for _, subject := range subjects {
				writers[subject] = ref.Name
			}
		}
	}
	for i := range clusterBindings.Items {
		add(clusterBindings.Items[i].Subjects, "", clusterBindings.Items[i].RoleRef)
	}
	for i := range bindings.Items {
		add(bindings.Items[i].Subjects, bindings.Items[i].Namespace, bindings.Items[i].RoleRef)
	}
	if len(writers) < 30 { // Kubernetes 1.32 has more than 40, most of them controllers
		t.Fatalf("only %d subjects can write: %v", len(writers), slices.Collect(maps.Values(writers)))
	}
	lists := exempt.With("weir-system", exempt.Lists{})
	for subject, role := range writers {
		is := false
		switch subject.Kind {
		case rbacv1.UserKind:
			is = slices.Contains(lists.Users, subject.Name)
		case rbacv1.GroupKind:
			is = slices.Contains(lists.Groups, subject.Name)
		case rbacv1.ServiceAccountKind:
			is = slices.Contains(lists.Namespaces, subject.Namespace)
		}
		if !is {
			t.Errorf("%s %s/%s can write by role %s and is not exempt", subject.Kind, subject.Namespace, subject.Name, role)
		}
	}
}

// mayWrite returns whether the rule permits a write that is not exempt for every user.
func mayWrite(rule rbacv1.PolicyRule) bool {
	writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return slices.Contains([]string{"*", "create", "update", "patch"}, verb) })
	return writes && slices.ContainsFunc(rule.APIGroups, func(group string) bool { return !slices.Contains(exempt.Groups(), group) })
}
