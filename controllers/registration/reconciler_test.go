package registration

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestReconcile_AddsTheWebhookLastAndRemovesItFirst(t *testing.T) {
	h := newHarness(t)
	h.limiter(h.namespace, "default", nil)
	step := func(reason string) {
		t.Helper()
		h.reconcile()
		h.expectReason(h.namespace, "default", reason)
		if registered := len(h.webhooks()) == 1; registered != (reason == v1alpha1.ReasonRegistered) {
			t.Fatalf("%s: the webhooks are %q", reason, h.webhooks())
		}
	}
	step(v1alpha1.ReasonNoPolicies)
	policy := h.policy("pods", nil, "pods")
	step(v1alpha1.ReasonNoCertificate)
	h.rotate()
	step(v1alpha1.ReasonNotReady)
	h.setReplicas("default", 0, 2) // only pods of the older template are ready, which do not serve API servers
	step(v1alpha1.ReasonNotReady)
	h.setReplicas("default", 1, 2)
	step(v1alpha1.ReasonRegistered)

	h.must(h.kube.Delete(t.Context(), policy))
	step(v1alpha1.ReasonNoPolicies)
	h.policy("pods", nil, "pods")
	step(v1alpha1.ReasonRegistered)
	h.edit(func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.Mode = v1alpha1.ThrottleModeDisabled })
	h.reconcile()
	h.expectReason(h.namespace, "default", "")
	if h.configuration() != nil {
		t.Errorf("throttling is disabled: webhooks %q", h.webhooks())
	}
	h.edit(func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.Mode = v1alpha1.ThrottleModeEnforce })
	step(v1alpha1.ReasonRegistered)
	h.must(h.kube.Delete(t.Context(), h.read(h.namespace, "default")))
	h.writes = nil
	h.reconcile()
	if want := []string{"delete weir-throttle"}; !slices.Equal(h.writes, want) {
		t.Errorf("writes for a deleted Limiter %q, want %q", h.writes, want)
	}
	err := h.kube.Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: "default"}, &v1alpha1.Limiter{})
	if !apierrors.IsNotFound(err) || h.configuration() != nil {
		t.Errorf("the Limiter: %v; webhooks %q", err, h.webhooks())
	}
}

// newRegisteredHarness returns a harness with one registered Limiter.
func newRegisteredHarness(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t)
	h.policy("pods", nil, "pods")
	h.rotate()
	h.limiter(h.namespace, "default", nil)
	h.setReplicas("default", 2, 0)
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
	return h
}

func TestReconcile_WritesNothingWhenNothingChanged(t *testing.T) {
	h := newRegisteredHarness(t)
	h.drainEvents()
	h.writes = nil
	// The Secret with the CAs is read, not watched.
	if again := h.reconcile().RequeueAfter; again != 30*time.Second {
		t.Errorf("reconciled again after %v, want 30 s", again)
	}
	h.restart()
	h.reconcile()
	if events := h.drainEvents(); len(h.writes)+len(events) > 0 {
		t.Errorf("writes %q, events %q", h.writes, events)
	}
}

func TestRegister_RevertsForeignChanges(t *testing.T) {
	h := newRegisteredHarness(t)
	want := h.configuration().Webhooks
	for name, change := range map[string]func(c *admissionv1.ValidatingWebhookConfiguration){
		"the failure policy": func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].FailurePolicy = new(admissionv1.Fail)
		},
		"the CA bundle":          func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[0].ClientConfig.CABundle = nil },
		"the match conditions":   func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[0].MatchConditions = nil },
		"the namespace selector": func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[0].NamespaceSelector = nil },
		"the rules": func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].Rules[0].Resources = []string{"*/*"}
		},
		"the object selector": func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"never": "there"}}
		},
		"an additional match condition": func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].MatchConditions = append(c.Webhooks[0].MatchConditions, admissionv1.MatchCondition{Name: "never", Expression: "false"})
		},
		"an additional webhook": func(c *admissionv1.ValidatingWebhookConfiguration) {
			another := *c.Webhooks[0].DeepCopy()
			another.Name = "another." + another.Name
			c.Webhooks = append(c.Webhooks, another)
		},
		"no webhooks": func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks = nil },
		"the labels":  func(c *admissionv1.ValidatingWebhookConfiguration) { c.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := h.configuration()
			change(c)
			h.must(h.kube.Update(t.Context(), c))
			h.reconcile()
			h.reconcile()
			if c := h.configuration(); !matches(c, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: Render(nil).ObjectMeta, Webhooks: want}) {
				t.Errorf("it is %v", cmp.Diff(want, c.Webhooks))
			}
		})
	}
	h.must(h.kube.Delete(t.Context(), h.configuration()))
	h.reconcile()
	if len(h.webhooks()) != 1 {
		t.Error("the deleted configuration is not restored")
	}
}

func TestEvaluate_KeepsTheWebhookForAGracePeriodWithoutReadyPods(t *testing.T) {
	h := newRegisteredHarness(t)
	h.drainEvents()
	h.setReplicas("default", 0, 0)
	if again := h.reconcile().RequeueAfter; again != unreadyGracePeriod {
		t.Errorf("the next reconciliation is after %v, want unreadyGracePeriod", again)
	}
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
	h.setReplicas("default", 1, 0)
	h.reconcile()
	h.setReplicas("default", 0, 0)
	h.now = h.now.Add(unreadyGracePeriod)
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered) // a new grace period has begun
	h.now = h.now.Add(unreadyGracePeriod)
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonNotReady)
	if events := h.drainEvents(); h.configuration() != nil || len(events) != 1 || !strings.HasPrefix(events[0], "Warning NotReady") {
		t.Errorf("webhooks %q, events %q", h.webhooks(), events)
	}
	h.setReplicas("default", 1, 0)
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
	h.setReplicas("default", 0, 1) // a rollout is stuck, and a pod of the older template is ready
	h.now = h.now.Add(time.Hour)
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
}

func TestEvaluate_RegistersOnlyLimitersInTheOperatorNamespace(t *testing.T) {
	h := newRegisteredHarness(t)
	elsewhere := kubetest.Namespace(t, kubetest.Kube(t))
	h.limiter(elsewhere, "default", nil)
	h.limiter(elsewhere, "plain", func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle = nil })
	h.reconcile()
	h.expectReason(elsewhere, "default", v1alpha1.ReasonNotOperatorNamespace)
	h.expectReason(elsewhere, "plain", "")
	if got := h.webhooks(); len(got) != 1 || !strings.HasPrefix(got[0], "default."+h.namespace) {
		t.Errorf("webhooks %q", got)
	}
}

func TestReconcile_GivesEachLimiterItsOwnWebhook(t *testing.T) {
	h := newHarness(t)
	h.rotate()
	longest := strings.Repeat("l", 50)
	for _, name := range []string{"b", "a", longest} {
		h.policy(name, map[string]string{"for": name}, "pods", "configmaps")
		h.limiter(h.namespace, name, func(s *v1alpha1.LimiterSpec) {
			s.PolicySelector = &metav1.LabelSelector{MatchLabels: map[string]string{"for": name}}
		})
		h.setReplicas(name, 2, 0)
	}
	h.reconcile()
	tail := "." + h.namespace + ".throttle.weir.dev"
	if want := []string{"a" + tail, "b" + tail, longest + tail}; !slices.Equal(h.webhooks(), want) {
		t.Fatalf("webhooks %q, want %q", h.webhooks(), want)
	}
	// With another field owner, server-side apply would keep a part of the webhook that is to be removed.
	c := h.configuration()
	c.Webhooks[0].TimeoutSeconds = new(int32(9))
	h.must(h.kube.Update(t.Context(), c, client.FieldOwner("another-owner")))
	h.must(h.kube.Delete(t.Context(), h.read(h.namespace, "a")))
	h.writes = nil
	h.reconcile()
	if want := []string{"b" + tail, longest + tail}; !slices.Equal(h.webhooks(), want) {
		t.Errorf("webhooks %q, want %q", h.webhooks(), want)
	}
	if want := []string{"update weir-throttle"}; !slices.Equal(h.writes, want) {
		t.Errorf("writes %q, want %q", h.writes, want)
	}
}

// The condition shows the controller of the Deployment that pods must keep serving API servers.
func TestReport_KeepsTheConditionUntilTheWebhookIsRemoved(t *testing.T) {
	h := newRegisteredHarness(t)
	h.edit(func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.Mode = v1alpha1.ThrottleModeDisabled })
	h.configurationErr = errors.New("etcdserver: request timed out")
	if _, err := h.reconciler.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, h.configurationErr) {
		t.Fatalf("error %v", err)
	}
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
	h.configurationErr = nil
	h.reconcile()
	h.expectReason(h.namespace, "default", "")
	if h.configuration() != nil {
		t.Error("the webhook is not removed")
	}
}

func TestReport_ReportsAWebhookThatCannotBeWritten(t *testing.T) {
	h := newRegisteredHarness(t)
	h.must(h.kube.Delete(t.Context(), h.configuration()))
	h.configurationErr = errors.New("etcdserver: request timed out")
	if _, err := h.reconciler.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, h.configurationErr) {
		t.Errorf("error %v", err)
	}
	h.expectReason(h.namespace, "default", v1alpha1.ReasonNotWritten)
	h.configurationErr = nil
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
}

func TestBundleFor_KeepsTheBundleWhenTheSecretIsDeleted(t *testing.T) {
	h := newRegisteredHarness(t)
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: h.namespace, Name: deployment.ThrottleSecret}
	h.must(h.kube.Get(t.Context(), key, secret))
	before := h.configuration().Webhooks[0].ClientConfig.CABundle
	if string(before) != string(secret.Data[caKey]) {
		t.Errorf("the bundle is %s", before)
	}
	h.must(h.kube.Delete(t.Context(), secret))
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
	h.rotate() // restores the Secret, and adds a new CA next to the old one
	h.reconcile()
	h.must(h.kube.Get(t.Context(), key, secret))
	after := h.configuration().Webhooks[0].ClientConfig.CABundle
	if string(after) != string(secret.Data[caKey]) || !strings.Contains(string(after), strings.TrimSpace(string(before))) {
		t.Errorf("the bundle is %s", after)
	}
	h.now = h.now.Add(365 * 24 * time.Hour) // the certificate was not renewed
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonNoCertificate)
	if h.configuration() != nil {
		t.Error("a Limiter with an expired certificate is registered")
	}
	h.rotate()
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonRegistered)
	secret.Data = map[string][]byte{caKey: []byte("garbage")}
	secret.ResourceVersion = ""
	h.must(h.kube.Update(t.Context(), secret))
	h.reconcile()
	h.expectReason(h.namespace, "default", v1alpha1.ReasonNoCertificate)
}
