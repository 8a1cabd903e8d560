package registration

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// collectGarbage deletes what has owners none of which exists, as the garbage collector of Kubernetes does.
func (h *harness) collectGarbage() {
	h.Helper()
	for h.collectOnce() {
	}
}

func (h *harness) collectOnce() (deleted bool) {
	h.Helper()
	alive := map[types.UID]bool{}
	var owned []client.Object
	for _, list := range []client.ObjectList{
		&v1alpha1.LimiterList{}, &appsv1.DeploymentList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &admissionv1.ValidatingWebhookConfigurationList{},
	} {
		h.must(h.kube.List(h.Context(), list))
		h.must(meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object) //nolint:forcetypeassert // these lists have nothing else
			alive[object.GetUID()] = true
			if len(object.GetOwnerReferences()) > 0 {
				owned = append(owned, object)
			}
			return nil
		}))
	}
	for _, object := range owned {
		if !slices.ContainsFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return alive[o.UID] }) {
			h.must(client.IgnoreNotFound(h.kube.Delete(h.Context(), object)))
			deleted = true
		}
	}
	return deleted
}

// blocking returns a harness with an installed operator, and a Limiter that fails closed and does not answer, so that it blocks writes.
func newBlockingHarness(t *testing.T) (h *harness, blocked func() bool) {
	t.Helper()
	h = newHarness(t)
	role := &rbacv1.ClusterRole{}
	role.Name = ownerRole
	h.must(h.kube.Create(t.Context(), role))
	t.Cleanup(func() { h.must(client.IgnoreNotFound(h.kube.Delete(context.Background(), role))) })
	h.policy("maps", nil, "configmaps")
	h.rotate()
	h.limiter(h.namespace, "default", func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.FailurePolicy = v1alpha1.WebhookFailureFail })
	h.setReplicas("default", 2, 0)
	h.reconcile()
	alice, shop := h.clientAs("alice"), kubetest.Namespace(t, kubetest.Kube(t))
	blocked = func() bool { return h.write(alice, shop) != nil }
	fixture.Await(h, "the API server rejects writes, because no limiter answers", blocked)
	h.collectGarbage()
	if !blocked() {
		t.Fatal("the webhook does not match while everything is installed")
	}
	return h, blocked
}

// The operator is dead already: it does nothing in this test. What is deleted first, alone, must be enough for writes to pass, and everything
// that Weir has created must go. The test of the cluster deletes in the same orders with the controllers of Kubernetes.
func TestWhileDeployed_NoOrderOfDeletionLeavesAWebhookThatRejectsWrites(t *testing.T) {
	object := func(o client.Object, name string) client.Object {
		o.SetName(name)
		return o
	}
	for name, first := range map[string]client.Object{
		"the Limiter":                                   object(&v1alpha1.Limiter{}, "default"),
		"the Deployment of the limiters":                object(&appsv1.Deployment{}, deployment.Name("default")),
		"the namespace, whose RoleBindings are deleted": object(&rbacv1.RoleBinding{}, deployment.Name("default")),
		"the manifests, whose Role is deleted":          object(&rbacv1.Role{}, deployedRole),
		"the manifests, whose ClusterRole is deleted":   object(&rbacv1.ClusterRole{}, ownerRole),
		"the ValidatingWebhookConfiguration":            object(&admissionv1.ValidatingWebhookConfiguration{}, ConfigurationName),
	} {
		t.Run(name, func(t *testing.T) {
			h, blocked := newBlockingHarness(t)
			if _, cluster := first.(*rbacv1.ClusterRole); !cluster && first.GetName() != ConfigurationName {
				first.SetNamespace(h.namespace)
			}
			h.must(h.kube.Delete(t.Context(), first))
			h.collectGarbage()
			fixture.Await(h, "writes pass", func() bool { return !blocked() })
			// Nothing that is left can hold a deletion.
			h.must(client.IgnoreNotFound(h.kube.Delete(t.Context(), h.reference(&v1alpha1.Limiter{}, "default"))))
			h.collectGarbage()
			for _, o := range []client.Object{&v1alpha1.Limiter{}, &appsv1.Deployment{}, &rbacv1.RoleBinding{}} {
				name := deployment.Name("default")
				if _, is := o.(*v1alpha1.Limiter); is {
					name = "default"
				}
				err := h.kube.Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: name}, o)
				if !apierrors.IsNotFound(err) {
					t.Errorf("%T %s remains: %v", o, name, err)
				}
			}
		})
	}
}

func (h *harness) reference(o client.Object, name string) client.Object {
	o.SetNamespace(h.namespace)
	o.SetName(name)
	return o
}

// Kubernetes deletes the pods of a namespace first. The operator has a few seconds before it ends.
func TestReconcile_WithdrawsWhenTheNamespaceOfTheOperatorIsDeleted(t *testing.T) {
	h, blocked := newBlockingHarness(t)
	var namespace corev1.Namespace
	h.must(h.kube.Get(t.Context(), types.NamespacedName{Name: h.namespace}, &namespace))
	h.must(h.kube.Delete(t.Context(), &namespace)) // no controller empties it here
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonNotReady)
	if h.configuration() != nil {
		t.Errorf("webhooks %q", h.webhooks())
	}
	fixture.Await(h, "writes pass", func() bool { return !blocked() })
	h.must(h.kube.Delete(t.Context(), h.read(h.namespace, "default")))
	err := h.kube.Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: "default"}, &v1alpha1.Limiter{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Limiter remains: %v", err)
	}
}

func TestBind_RestoresTheRoleBinding(t *testing.T) {
	h := newRegisteredHarness(t)
	key := types.NamespacedName{Namespace: h.namespace, Name: deployment.Name("default")}
	binding := func() *rbacv1.RoleBinding {
		t.Helper()
		var b rbacv1.RoleBinding
		h.must(h.kube.Get(t.Context(), key, &b))
		return &b
	}
	want := binding()
	for name, change := range map[string]func(b *rbacv1.RoleBinding){
		"another owner, of a backup": func(b *rbacv1.RoleBinding) { b.OwnerReferences[0].UID = "gone" },
		"no owner":                   func(b *rbacv1.RoleBinding) { b.OwnerReferences = nil },
		"no subject":                 func(b *rbacv1.RoleBinding) { b.Subjects = nil },
	} {
		b := binding()
		change(b)
		h.must(h.kube.Update(t.Context(), b))
		h.reconcile()
		if got := binding(); !equality.Semantic.DeepEqual(got.OwnerReferences, want.OwnerReferences) || !equality.Semantic.DeepEqual(got.Subjects, want.Subjects) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	h.must(h.kube.Delete(t.Context(), binding()))
	h.reconcile()
	binding()
}

// Without its RoleBinding, the webhook would not match: the limits would be lifted without a sign.
func TestBind_RegistersNoLimiterWhoseRoleBindingBelongsToAnother(t *testing.T) {
	h := newHarness(t)
	h.policy("pods", nil, "pods")
	h.rotate()
	h.limiter(h.namespace, "default", nil)
	h.setReplicas("default", 2, 0)
	foreign := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: deployment.Name("default")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	h.must(h.kube.Create(t.Context(), foreign))
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonNotWritten)
	if h.configuration() != nil {
		t.Errorf("webhooks %q", h.webhooks())
	}
	h.must(h.kube.Delete(t.Context(), foreign))
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
}

func TestBind_ReportsThatTheRoleIsMissing(t *testing.T) {
	h := newRegisteredHarness(t)
	role := func() *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: deployedRole}}
	}
	h.must(h.kube.Delete(t.Context(), role()))
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonNotWritten)
	if h.configuration() != nil {
		t.Errorf("webhooks %q", h.webhooks())
	}
	h.must(h.kube.Create(t.Context(), role()))
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
}

// The Limiters stay, as they do with helm uninstall: helm and kubectl both delete the ClusterRole in config/rbac. test/manifests tests that
// helm deletes all of it.
func TestUninstall_LeavesNoWebhookThatRejectsWrites(t *testing.T) {
	h := newHarness(t)
	kube := kubetest.Kube(t)
	root, err := fixture.ModuleRoot()
	h.must(err)
	kubectl := func(args ...string) {
		t.Helper()
		_, err := kube.Kubectl(t.Context(), args...)
		h.must(err)
	}
	kubectl("apply", "-f", filepath.Join(root, "config", "operator", "namespace.yaml"))
	kubectl("apply", "-k", filepath.Join(root, "config", "rbac"))
	h.policy("maps", nil, "configmaps")
	h.rotate()
	h.limiter(h.namespace, "default", func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.FailurePolicy = v1alpha1.WebhookFailureFail })
	h.setReplicas("default", 2, 0)
	h.reconcile()
	alice, shop := h.clientAs("alice"), kubetest.Namespace(t, kube)
	fixture.Await(h, "the API server rejects writes, because no limiter answers", func() bool { return h.write(alice, shop) != nil })
	h.collectGarbage()
	if h.configuration() == nil {
		t.Fatal("the webhook configuration is deleted while Weir is installed")
	}

	kubectl("delete", "-k", filepath.Join(root, "config", "rbac"))
	h.now = h.now.Add(91 * 24 * time.Hour) // no operator has renewed the certificate
	var secret corev1.Secret
	h.must(h.kube.Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: deployment.ThrottleSecret}, &secret))
	if _, err := bundleFor(&secret, nil, h.read(h.namespace, "default"), h.now); err == nil {
		t.Error("the certificate is still valid")
	}
	h.collectGarbage()
	fixture.Await(h, "writes pass after the uninstallation", func() bool { return h.write(alice, shop) == nil })
}

func TestRegister_FollowsANewOwner(t *testing.T) {
	h := newRegisteredHarness(t)
	for range 2 { // the role may be deleted and created again
		role := &rbacv1.ClusterRole{}
		role.Name = ownerRole
		h.must(h.kube.Create(t.Context(), role))
		h.reconcile()
		if got := h.configuration().OwnerReferences; len(got) != 1 || got[0].UID != role.UID {
			t.Errorf("owners %+v, want %s", got, role.UID)
		}
		h.must(h.kube.Delete(t.Context(), role))
	}
}
