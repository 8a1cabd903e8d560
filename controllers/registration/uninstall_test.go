package registration

import (
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// collectGarbage deletes the configuration if none of its owners exists, as the garbage collector of Kubernetes does.
func (h *harness) collectGarbage() {
	h.Helper()
	c := h.configuration()
	if c == nil || len(c.OwnerReferences) == 0 {
		return
	}
	for _, owner := range c.OwnerReferences {
		var role rbacv1.ClusterRole
		err := h.kube.Get(h.Context(), types.NamespacedName{Name: owner.Name}, &role)
		h.must(client.IgnoreNotFound(err))
		if err == nil && role.UID == owner.UID {
			return
		}
	}
	h.must(h.kube.Delete(h.Context(), c))
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
