package deployment

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/hashkey"
)

// mountedHashKey returns the Secret with the hash key that the pods of the Limiter mount.
func (h *harness) mountedHashKey() (name string, secret *corev1.Secret) {
	h.Helper()
	for _, volume := range h.deployment("default").Spec.Template.Spec.Volumes {
		if volume.Name == "hash-key" {
			name = volume.Secret.SecretName
		}
	}
	secret = &corev1.Secret{}
	h.must(h.kube.Get(h.Context(), types.NamespacedName{Namespace: h.namespace, Name: name}, secret))
	return name, secret
}

func TestReconcile_CreatesTheHashKeyOnce(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	name, secret := h.mountedHashKey()
	want := hashkey.Of(testOptions.HashKey, h.limiter())
	if string(secret.Data["key"]) != string(want.Text()) || secret.Immutable == nil || !*secret.Immutable || !metav1.IsControlledBy(secret, h.limiter()) {
		t.Errorf("Secret %+v", secret)
	}
	if args := h.deployment("default").Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--hash-key=/etc/weir/hash-key/key") {
		t.Errorf("arguments %q", args)
	}
	written := func() int {
		n := 0
		for _, w := range h.writes {
			if strings.Contains(w, " Secret ") {
				n++
			}
			if strings.Contains(w, " Secret ") && w != "create Secret "+name {
				t.Errorf("the controller wrote %q", w)
			}
		}
		return n
	}
	h.restart()
	h.reconcile("default")
	h.reconcile("default")
	if n := written(); n != 2 {
		t.Errorf("%d attempts to create the Secret, want one of each controller", n)
	}
	if _, again := h.mountedHashKey(); again.ResourceVersion != secret.ResourceVersion {
		t.Error("the Secret was changed")
	}
}

func TestReconcile_CreatesADeletedHashKeyAgain(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	_, secret := h.mountedHashKey()
	h.must(h.kube.Delete(h.Context(), secret))
	h.now = h.now.Add(time.Minute)
	h.reconcile("default")
	if _, again := h.mountedHashKey(); string(again.Data["key"]) != string(secret.Data["key"]) {
		t.Error("the Secret has another key")
	}
}

func TestReconcile_AnotherCounterGroupHasAnotherHashKey(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	before, _ := h.mountedHashKey()
	h.edit(func(spec *v1alpha1.LimiterSpec) { spec.CounterGroup = "shared" })
	h.reconcile("default")
	after, secret := h.mountedHashKey()
	if before == after || string(secret.Data["key"]) != string(testOptions.HashKey.Derive("@shared").Text()) {
		t.Errorf("Secret %s, before %s", after, before)
	}
}
