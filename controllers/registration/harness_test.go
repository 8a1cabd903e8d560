package registration

import (
	"context"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/webhook/certificate"
)

// harness runs a Reconciler and a certificate Rotator against a real API server. Tests call Reconcile directly. The namespace is that
// of the operator.
type harness struct {
	*testing.T
	kube             client.WithWatch // for writes by users, in group system:masters
	reconciler       *Reconciler
	rotator          *certificate.Rotator
	events           *events.FakeRecorder
	namespace        string
	now              time.Time
	reported         map[types.UID]report.Webhook // by the last reconciliation
	writes           []string                     // by the controller
	configurationErr error                        // returned for writes to the configuration
	beforeNextPatch  func()                       // runs once, between a read and the next patch of the controller
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	kube := kubetest.Kube(t)
	scheme := runtime.NewScheme()
	must(t, AddToScheme(scheme))
	must(t, deployment.AddToScheme(scheme)) // its kinds are in the same cache
	must(t, rbacv1.AddToScheme(scheme))
	people, err := client.NewWithWatch(kube.Config(), client.Options{Scheme: scheme})
	must(t, err)
	h := &harness{T: t, kube: people, events: events.NewFakeRecorder(100), namespace: kubetest.Namespace(t, kube), now: time.Now()}
	h.rotator, err = certificate.NewRotator(certificate.Config{
		Rotation:               certificate.DefaultRotation("*." + h.namespace + ".svc"),
		Secret:                 types.NamespacedName{Namespace: h.namespace, Name: deployment.ThrottleSecret},
		ExternalConfigurations: []string{ConfigurationName}, Client: people, Uncached: people, Interval: time.Minute, Clock: func() time.Time { return h.now },
	})
	must(t, err)
	h.restart()
	h.clean()
	h.must(h.kube.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: deployedRole},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"weir.dev"}, Resources: []string{"limiters/throttle"}, Verbs: []string{"get"}}},
	}))
	t.Cleanup(h.clean)
	return h
}

// clean deletes cluster-scoped objects, and Limiters and policies in all namespaces.
func (h *harness) clean() {
	ctx := context.Background()
	must(h.T, h.kube.DeleteAllOf(ctx, &admissionv1.ValidatingWebhookConfiguration{}))
	must(h.T, h.kube.DeleteAllOf(ctx, &v1alpha1.ClusterRateLimitPolicy{}))
	var limiters v1alpha1.LimiterList
	must(h.T, h.kube.List(ctx, &limiters))
	for i := range limiters.Items {
		l := &limiters.Items[i]
		must(h.T, client.IgnoreNotFound(h.kube.Delete(ctx, l)))
	}
	var policies v1alpha1.RateLimitPolicyList
	must(h.T, h.kube.List(ctx, &policies))
	for i := range policies.Items {
		must(h.T, h.kube.Delete(ctx, &policies.Items[i]))
	}
}

// restart replaces the Reconciler by a new one, which remembers nothing.
func (h *harness) restart() {
	h.reconciler = New(Config{
		Client: interceptor.NewClient(h.kube, h.recordingWrites()), Uncached: h.kube, Namespace: h.namespace, SecretName: deployment.ThrottleSecret,
		SetWebhooks: func(all map[types.UID]report.Webhook) { h.reported = all },
		Events:      h.events, Clock: func() time.Time { return h.now },
	})
}

// recordingWrites records every write of the controller. Writes to the configuration fail with configurationErr if it is set.
func (h *harness) recordingWrites() interceptor.Funcs {
	return kubetest.InterceptWrites(func(verb, _, name string) error {
		h.writes = append(h.writes, verb+" "+name)
		if name == ConfigurationName && h.configurationErr != nil {
			return h.configurationErr
		}
		if hook := h.beforeNextPatch; verb == "patch" && hook != nil {
			h.beforeNextPatch = nil
			hook()
		}
		return nil
	})
}

func (h *harness) must(err error) {
	h.Helper()
	must(h.T, err)
}

// reconcile advances the clock by a second and calls Reconcile.
func (h *harness) reconcile() ctrl.Result {
	h.Helper()
	h.now = h.now.Add(time.Second)
	result, err := h.reconciler.Reconcile(h.Context(), ctrl.Request{})
	h.must(err)
	return result
}

// rotate runs the certificate Rotator once.
func (h *harness) rotate() {
	h.Helper()
	_, err := h.rotator.Reconcile(h.Context(), ctrl.Request{})
	h.must(err)
}

// limiter creates a Limiter that throttles. The function change, if there is one, changes its spec first.
func (h *harness) limiter(namespace, name string, change func(*v1alpha1.LimiterSpec)) {
	h.Helper()
	l := &v1alpha1.Limiter{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.LimiterSpec{
			Redis: v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"redis.redis:6379"}}, KubernetesThrottle: &v1alpha1.KubernetesThrottle{},
		},
	}
	if change != nil {
		change(&l.Spec)
	}
	h.must(h.kube.Create(h.Context(), l))
}

// edit changes the Limiter "default".
func (h *harness) edit(change func(*v1alpha1.LimiterSpec)) {
	h.Helper()
	l := h.read(h.namespace, "default")
	change(&l.Spec)
	h.must(h.kube.Update(h.Context(), l))
}

func (h *harness) read(namespace, name string) *v1alpha1.Limiter {
	h.Helper()
	var l v1alpha1.Limiter
	h.must(h.kube.Get(h.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &l))
	return &l
}

// setReplicas sets the status of the Limiter's Deployment: ready pods out of two of the latest template, and pods of an older template,
// which are all ready.
func (h *harness) setReplicas(limiter string, ready, older int32) {
	h.Helper()
	labels := map[string]string{"app": limiter, "app.kubernetes.io/managed-by": "weir-operator"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: deployment.Name(limiter), Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "limiter", Image: "weir:test", Ports: []corev1.ContainerPort{{Name: "throttle", ContainerPort: deployment.ThrottlePort}},
				}}},
			},
		},
	}
	var owner v1alpha1.Limiter
	switch err := h.kube.Get(h.Context(), types.NamespacedName{Namespace: h.namespace, Name: limiter}, &owner); {
	case err == nil:
		d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&owner, v1alpha1.GroupVersion.WithKind("Limiter"))}
	case !apierrors.IsNotFound(err):
		h.Fatal(err)
	}
	if err := h.kube.Create(h.Context(), d); apierrors.IsAlreadyExists(err) {
		h.must(h.kube.Get(h.Context(), client.ObjectKeyFromObject(d), d))
	} else {
		h.must(err)
	}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: 2 + older, UpdatedReplicas: 2, ReadyReplicas: ready + older, AvailableReplicas: ready + older,
	}
	h.must(h.kube.Status().Update(h.Context(), d))
}

// policy creates a ClusterRateLimitPolicy that limits the creation of resources of the core group.
func (h *harness) policy(name string, labels map[string]string, resources ...v1alpha1.ResourceName) *v1alpha1.ClusterRateLimitPolicy {
	h.Helper()
	p := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	p.Spec.Axis, p.Spec.Limit, p.Spec.Window = v1alpha1.AxisUser, new(int64(1)), "1h"
	p.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: []v1alpha1.KubernetesResources{{
		APIGroups: []v1alpha1.APIGroup{""}, Resources: resources,
	}}}}
	h.must(h.kube.Create(h.Context(), p))
	return p
}

// webhooks returns the names of the registered webhooks. It returns nil if there is no configuration.
func (h *harness) webhooks() (names []string) {
	h.Helper()
	if c := h.configuration(); c != nil {
		for i := range c.Webhooks {
			names = append(names, c.Webhooks[i].Name)
		}
	}
	return names
}

func (h *harness) configuration() *admissionv1.ValidatingWebhookConfiguration {
	h.Helper()
	var c admissionv1.ValidatingWebhookConfiguration
	err := h.kube.Get(h.Context(), types.NamespacedName{Name: ConfigurationName}, &c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	h.must(err)
	return &c
}

// expectReason fails unless the condition of the Limiter has the reason. "" means that there is no condition.
func (h *harness) expectReason(namespace, limiter, reason string) {
	h.Helper()
	c := meta.FindStatusCondition(h.read(namespace, limiter).Status.Conditions, v1alpha1.ConditionThrottleRegistered)
	switch {
	case c == nil && reason == "":
	case c == nil:
		h.Errorf("no condition, want %s", reason)
	case c.Reason != reason || (c.Status == metav1.ConditionTrue) != (reason == v1alpha1.ReasonRegistered):
		h.Errorf("%s=%s %s %q, want %s", c.Type, c.Status, c.Reason, c.Message, reason)
	}
}

// drainEvents returns the events recorded since the last call.
func (h *harness) drainEvents() (all []string) {
	for {
		select {
		case text := <-h.events.Events:
			all = append(all, text)
		default:
			return all
		}
	}
}
