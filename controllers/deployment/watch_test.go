package deployment

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// The controller runs as in the operator: with caches and watches, and with the operator's permissions only.
func TestManager_ReconcilesWithTheOperatorsCacheAndPermissions(t *testing.T) {
	h := newHarness(t)
	h.must(eventsv1.AddToScheme(h.kube.Scheme()))
	kube := kubetest.Kube(t)
	const user = "system:serviceaccount:weir-system:weir-operator-of-this-test"
	_, err := kube.Kubectl(t.Context(), "apply", "-f", "testdata/role.yaml")
	h.must(err)
	_, err = kube.Kubectl(t.Context(), "create", "clusterrolebinding", h.namespace, "--clusterrole=weir-operator-limiters", "--user="+user)
	h.must(err)
	config := kube.Config()
	config.Impersonate.UserName = user
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  h.kube.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true, ByObject: testOptions.Cached(),
		},
		Controller: controllerconfig.Controller{SkipNameValidation: new(true)}, // allows -count
	})
	h.must(err)
	reconciler := New(Config{
		Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("weir-operator"),
		Options: testOptions, Clock: time.Now,
	})
	reconciler.blockedRetry = 100 * time.Millisecond
	h.must(reconciler.SetupWithManager(mgr))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		h.must(<-ended)
	}()

	status := func(kind, reason string) func() bool {
		return func() bool {
			limiter := h.limiter()
			c := meta.FindStatusCondition(limiter.Status.Conditions, kind)
			return c != nil && c.Reason == reason && limiter.Status.ObservedGeneration == limiter.Generation
		}
	}
	h.create("default", func(s *v1alpha1.LimiterSpec) { s.Redis.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "login"} })
	fixture.Await(h, "the status reports that the Secret is missing", status(v1alpha1.ConditionProgrammed, v1alpha1.ReasonSecretNotFound))
	fixture.Await(h, "an event reports that the Secret is missing", func() bool {
		var list eventsv1.EventList
		h.must(h.kube.List(t.Context(), &list, client.InNamespace(h.namespace)))
		return len(list.Items) > 0 && list.Items[0].Reason == v1alpha1.ReasonSecretNotFound
	})
	h.must(h.kube.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "login"}, StringData: map[string]string{passwordKey: "x"},
	}))
	fixture.Await(h, "the Limiter is deployed", status(v1alpha1.ConditionProgrammed, v1alpha1.ReasonDeployed))
	h.setReadyReplicas(2)
	fixture.Await(h, "the Limiter is ready", status(v1alpha1.ConditionReady, v1alpha1.ReasonDeployed))

	h.must(h.kube.Delete(t.Context(), owned[corev1.Service](h, "default")))
	fixture.Await(h, "the Service is restored", func() bool {
		err := h.kube.Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: Name("default")}, &corev1.Service{})
		return !apierrors.IsNotFound(err)
	})
	h.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		d := h.deployment("default")
		d.Spec.Template.Spec.Containers[0].Image = "other"
		delete(d.Labels, managedByLabel) // without it the cache misses the object
		return h.kube.Update(t.Context(), d)
	}))
	fixture.Await(h, "the image and the label are restored", func() bool {
		d := h.deployment("default")
		return d.Spec.Template.Spec.Containers[0].Image == testOptions.Image && d.Labels[managedByLabel] == managedBy
	})
	h.edit(func(s *v1alpha1.LimiterSpec) { s.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 4} })
	fixture.Await(h, "the autoscaler exists", func() bool { return len(h.existingKinds()) == 7 })
	h.edit(func(s *v1alpha1.LimiterSpec) { s.Autoscaling = nil })
	fixture.Await(h, "the autoscaler is deleted", func() bool { return len(h.existingKinds()) == 6 })
	h.must(h.kube.Delete(t.Context(), h.limiter()))
	fixture.Await(h, "the Limiter is deleted", func() bool {
		err := h.kube.Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: "default"}, &v1alpha1.Limiter{})
		return apierrors.IsNotFound(err)
	})
}

func TestRelevantChange_PassesWhatTheControllerReadsOrWrites(t *testing.T) {
	limiter := func(generation int64, conditions []metav1.Condition, finalizers ...string) *v1alpha1.Limiter {
		l := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Generation: generation, Finalizers: finalizers}}
		l.Status.Conditions = conditions
		return l
	}
	registered := []metav1.Condition{{Type: v1alpha1.ConditionThrottleRegistered, Status: yes}}
	for name, test := range map[string]struct {
		before, after *v1alpha1.Limiter
		want          bool
	}{
		"an edit":                              {limiter(1, nil), limiter(2, nil), true},
		"the status of this controller":        {limiter(1, nil), limiter(1, []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: yes}}), true},
		"the status of another controller":     {limiter(1, nil), limiter(1, []metav1.Condition{{Type: v1alpha1.ConditionDegraded, Status: yes}}), false},
		"the webhook is registered":            {limiter(1, nil), limiter(1, registered), false},
		"the webhook is removed":               {limiter(1, registered), limiter(1, nil), true},
		"an older version adds its finalizers": {limiter(1, nil), limiter(1, nil, "weir.dev/redis"), true},
	} {
		if got := relevantChange().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
