package registration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// clientAs returns a client for a user with the permissions of cluster-admin and in no exempt group.
func (h *harness) clientAs(user string, groups ...string) client.Client {
	h.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "admin-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	h.must(h.kube.Create(h.Context(), binding))
	h.Cleanup(func() { h.must(h.kube.Delete(context.Background(), binding)) })
	config := kubetest.Kube(h.T).Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: h.kube.Scheme()})
	h.must(err)
	return c
}

// write creates a ConfigMap in the namespace.
func (h *harness) write(c client.Client, namespace string) error {
	return c.Create(h.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-", Namespace: namespace}})
}

// A policy matches every write, the Limiter fails closed, and it has no pod.
func TestLockout_AMissingLimiterBlocksNoExemptWrite(t *testing.T) {
	h := newHarness(t)
	h.rotate()
	p := h.policy("everything", nil, "*")
	p.Spec.Match.Kubernetes.Resources = []v1alpha1.KubernetesResources{{
		APIGroups: []v1alpha1.APIGroup{"*"}, Resources: []v1alpha1.ResourceName{"*"},
		Operations: []v1alpha1.Operation{v1alpha1.OperationCreate, v1alpha1.OperationUpdate},
	}}
	h.must(h.kube.Update(t.Context(), p))
	h.limiter(h.namespace, "default", func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.FailurePolicy = v1alpha1.WebhookFailureFail })
	h.setReplicas("default", 2, 0)
	alice, shop := h.clientAs("alice"), kubetest.Namespace(t, kubetest.Kube(t))
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
	fixture.Await(h, "the API server rejects writes of alice", func() bool { return h.write(alice, shop) != nil })

	for name, write := range map[string]func() error{
		"a cluster admin anywhere":             func() error { return h.write(h.kube, shop) },
		"any user in kube-system":              func() error { return h.write(alice, metav1.NamespaceSystem) },
		"any user in the operator's namespace": func() error { return h.write(alice, h.namespace) },
		"a controller of the cluster":          func() error { return h.write(h.clientAs("system:kube-controller-manager"), shop) },
		"a cloud controller manager":           func() error { return h.write(h.clientAs("system:cloud-controller-manager"), shop) },
		"a node":                               func() error { return h.write(h.clientAs("system:node:one", "system:nodes"), shop) },
		"a node that joins":                    func() error { return h.write(h.clientAs("system:bootstrap:abcdef", "system:bootstrappers"), shop) },
		"any user who requests a certificate":  func() error { return h.requestCertificate(alice) },
		"a service account of kube-system": func() error {
			return h.write(h.clientAs("system:serviceaccount:kube-system:x", "system:serviceaccounts:kube-system"), shop)
		},
		"a service account in the operator's namespace": func() error {
			return h.write(h.clientAs("system:serviceaccount:"+h.namespace+":x", "system:serviceaccounts:"+h.namespace), shop)
		},
		"a user who may edit the Limiter":   func() error { return h.annotate(alice) },
		"a user who may delete the webhook": func() error { return alice.Delete(t.Context(), h.configuration(), client.DryRunAll) },
	} {
		if err := write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := h.write(alice, shop); err == nil {
		t.Error("the API server did not call the webhook")
	}

	h.setReplicas("default", 0, 0) // the operator notices that no pod is ready
	h.reconcile()
	h.now = h.now.Add(unreadyGracePeriod)
	h.reconcile()
	fixture.Await(h, "alice can write again", func() bool { return h.write(alice, shop) == nil })
}

func (h *harness) annotate(c client.Client) error {
	l := h.read(h.namespace, "default")
	l.Annotations = map[string]string{"some": "thing"}
	return c.Update(h.Context(), l)
}

func TestLockout_OneCommandDisablesThrottling(t *testing.T) {
	h := newRegisteredHarness(t)
	const patch = `{"spec":{"kubernetesThrottle":{"mode":"Disabled"}}}`
	_, err := kubetest.Kube(t).Kubectl(t.Context(), "patch", "limiter", "default", "-n", h.namespace, "--type=merge", "-p", patch)
	h.must(err)
	h.reconcile()
	if h.configuration() != nil {
		t.Errorf("webhooks %q", h.webhooks())
	}
	h.edit(func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.Mode = v1alpha1.ThrottleModeEnforce })
	h.reconcile()
	if len(h.webhooks()) != 1 {
		t.Error("the webhook is not registered again")
	}
	// This works without an operator.
	_, err = kubetest.Kube(t).Kubectl(t.Context(), "delete", "validatingwebhookconfiguration", ConfigurationName)
	h.must(err)
}

func TestRender_IsAcceptedByAnAPIServerForEveryNameAndRule(t *testing.T) {
	h := newHarness(t)
	var throttling []ThrottlingLimiter
	for _, text := range []string{"a", strings.Repeat("l", 50)} {
		l := &v1alpha1.Limiter{}
		l.Name, l.Namespace = text, strings.Repeat("n", 63)
		l.Spec.KubernetesThrottle = &v1alpha1.KubernetesThrottle{AdditionalExemptUsers: []v1alpha1.KubernetesUser{"CN=\"o'brien\"\\ \x01\n\x7fü💥"}}
		throttling = append(throttling, ThrottlingLimiter{Limiter: l, Rules: nil, Bundle: []byte("some")})
	}
	throttling[0].Rules = append(throttling[0].Rules, writeRule("*/*:CREATE", "/pods:UPDATE", "/pods/exec:CONNECT", "apps/*:UPDATE", "apps/a/scale:UPDATE"))
	for i := range 400 {
		throttling[1].Rules = append(throttling[1].Rules, writeRule(fmt.Sprintf("/r%d:CREATE", i)))
	}
	wanted := Render(throttling)
	h.must(h.reconciler.register(t.Context(), inputs{}, wanted))
	is := h.configuration()
	if !matches(is, wanted) {
		t.Errorf("the API server stored %+v", is.Webhooks)
	}
}
