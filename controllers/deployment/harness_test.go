package deployment

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns if no logger is set
	kubetest.Main(m)
}

const (
	yes = metav1.ConditionTrue
	no  = metav1.ConditionFalse
)

// harness runs a Reconciler against a real API server. Tests call Reconcile directly.
type harness struct {
	*testing.T
	kube       client.WithWatch // for writes by users
	reconciler *Reconciler
	events     *events.FakeRecorder
	namespace  string
	now        time.Time
	writes     []string // by the controller
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	kube := kubetest.Kube(t)
	scheme := runtime.NewScheme()
	must(t, AddToScheme(scheme))
	people, err := client.NewWithWatch(kube.Config(), client.Options{Scheme: scheme})
	must(t, err)
	h := &harness{
		T: t, kube: people, events: events.NewFakeRecorder(100),
		namespace: kubetest.Namespace(t, kube), now: time.Now(),
	}
	h.restart()
	return h
}

// restart replaces the Reconciler by a new one, which remembers nothing.
func (h *harness) restart() {
	h.Helper()
	h.reconciler = New(Config{
		Client: interceptor.NewClient(h.kube, h.recordingWrites()), Uncached: h.kube, Events: h.events,
		Options: testOptions, Clock: func() time.Time { return h.now },
	})
}

// recordingWrites records every write of the controller.
func (h *harness) recordingWrites() interceptor.Funcs {
	return kubetest.InterceptWrites(func(verb, kind, name string) error {
		h.writes = append(h.writes, verb+" "+kind+" "+name)
		return nil
	})
}

func (h *harness) must(err error) {
	h.Helper()
	must(h.T, err)
}

// reconcile advances the clock by a second and calls Reconcile.
func (h *harness) reconcile(name string) ctrl.Result {
	h.Helper()
	h.now = h.now.Add(time.Second)
	result, err := h.reconciler.Reconcile(h.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: h.namespace, Name: name}})
	h.must(err)
	return result
}

// create creates a Limiter. The function change, if there is one, changes its spec first.
func (h *harness) create(name string, change func(*v1alpha1.LimiterSpec)) {
	h.Helper()
	limiter := &v1alpha1.Limiter{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name},
		Spec:       v1alpha1.LimiterSpec{Redis: v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"redis.redis:6379"}}},
	}
	if change != nil {
		change(&limiter.Spec)
	}
	h.must(h.kube.Create(h.Context(), limiter))
}

func (h *harness) edit(change func(*v1alpha1.LimiterSpec)) {
	h.Helper()
	h.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		limiter := h.limiter()
		change(&limiter.Spec)
		return h.kube.Update(h.Context(), limiter)
	}))
}

func (h *harness) limiter() *v1alpha1.Limiter {
	h.Helper()
	var limiter v1alpha1.Limiter
	h.must(h.kube.Get(h.Context(), types.NamespacedName{Namespace: h.namespace, Name: "default"}, &limiter))
	return &limiter
}

// owned reads one of the objects that the Limiter owns.
func owned[T any, P interface {
	*T
	client.Object
}](h *harness, limiter string) P {
	h.Helper()
	object := P(new(T))
	h.must(h.kube.Get(h.Context(), types.NamespacedName{Namespace: h.namespace, Name: Name(limiter)}, object))
	return object
}

func (h *harness) deployment(limiter string) *appsv1.Deployment {
	h.Helper()
	return owned[appsv1.Deployment](h, limiter)
}

// existingKinds returns the kinds of the Limiter's objects that exist.
func (h *harness) existingKinds() (kinds []string) {
	h.Helper()
	for _, object := range []client.Object{
		&corev1.ServiceAccount{}, &corev1.ConfigMap{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &appsv1.Deployment{},
		&networkingv1.NetworkPolicy{}, &autoscalingv2.HorizontalPodAutoscaler{},
	} {
		err := h.kube.Get(h.Context(), types.NamespacedName{Namespace: h.namespace, Name: Name("default")}, object)
		if apierrors.IsNotFound(err) {
			continue
		}
		h.must(err)
		kinds = append(kinds, fmt.Sprintf("%T", object))
	}
	return kinds
}

// setReadyReplicas sets the status of the Deployment, as the controllers of a complete cluster would.
func (h *harness) setReadyReplicas(ready int32) {
	h.Helper()
	d := h.deployment("default")
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas, ReadyReplicas: ready, AvailableReplicas: ready,
	}
	h.must(h.kube.Status().Update(h.Context(), d))
}

// expectCondition fails unless the condition has the status and reason, and is of the latest generation.
func (h *harness) expectCondition(kind string, status metav1.ConditionStatus, reason string) {
	h.Helper()
	limiter := h.limiter()
	c := meta.FindStatusCondition(limiter.Status.Conditions, kind)
	if c == nil {
		h.Errorf("no condition %s", kind)
		return
	}
	if c.Status != status || c.Reason != reason || c.ObservedGeneration != limiter.Generation {
		h.Errorf("%s=%s %s (generation %d, message %q), want %s %s (generation %d)",
			kind, c.Status, c.Reason, c.ObservedGeneration, c.Message, status, reason, limiter.Generation)
	}
	if limiter.Status.ObservedGeneration != limiter.Generation {
		h.Errorf("the status is of generation %d, want %d", limiter.Status.ObservedGeneration, limiter.Generation)
	}
}

// expectNoCondition fails if the Limiter has one of the conditions.
func (h *harness) expectNoCondition(kinds ...string) {
	h.Helper()
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(h.limiter().Status.Conditions, kind); c != nil {
			h.Errorf("%s=%s %s, want no such condition", kind, c.Status, c.Reason)
		}
	}
}

func (h *harness) message(kind string) string {
	h.Helper()
	c := meta.FindStatusCondition(h.limiter().Status.Conditions, kind)
	if c == nil {
		h.Fatalf("no condition %s", kind)
	}
	return c.Message
}

// nextEvent returns the next recorded event, or "".
func (h *harness) nextEvent() string {
	select {
	case text := <-h.events.Events:
		return text
	default:
		return ""
	}
}

func writeFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file.json")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
