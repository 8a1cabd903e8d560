package registration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/webhook/certificate"
)

// The controller and the certificate rotation run as in the operator: with caches and watches, and with the operator's permissions only.
func TestManager_ReconcilesWithTheOperatorsCacheAndPermissions(t *testing.T) {
	h := newHarness(t)
	h.must(eventsv1.AddToScheme(h.kube.Scheme()))
	kube := kubetest.Kube(t)
	user := "system:serviceaccount:" + h.namespace + ":weir-operator"
	for _, args := range [][]string{
		{"apply", "-n", h.namespace, "-f", "testdata/role.yaml"},
		{"create", "clusterrolebinding", h.namespace, "--clusterrole=weir-operator-throttle", "--user=" + user},
		{"create", "rolebinding", "throttle", "-n", h.namespace, "--role=weir-operator-throttle", "--user=" + user},
	} {
		_, err := kube.Kubectl(t.Context(), args...)
		h.must(err)
	}
	config := kube.Config()
	config.Impersonate.UserName = user
	held := Cached()
	maps.Copy(held, deployment.Options{}.Cached())
	var delay sync.Mutex // held while the cache must not receive Limiters
	held[&v1alpha1.Limiter{}] = cache.ByObject{Transform: func(object any) (any, error) {
		delay.Lock()
		defer delay.Unlock()
		return cache.TransformStripManagedFields()(object)
	}}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  h.kube.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true, ByObject: held,
		},
		Controller: controllerconfig.Controller{SkipNameValidation: new(true)}, // allows -count
	})
	h.must(err)
	begin := time.Now()
	fast := func() time.Time { return begin.Add(20 * time.Since(begin)) } // shortens the grace period of a Limiter without ready pods
	var problem atomic.Value                                              // of the webhook, as the last reconciliation found it
	h.must(New(Config{
		Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(), Namespace: h.namespace, SecretName: deployment.ThrottleSecret,
		SetWebhooks: func(all map[types.UID]report.Webhook) {
			for _, webhook := range all {
				problem.Store(webhook.Problem)
			}
		},
		Events: mgr.GetEventRecorder("weir-operator"), Clock: fast,
	}).SetupWithManager(mgr))
	rotator, err := certificate.NewRotator(certificate.Config{
		Rotation:               certificate.DefaultRotation("*." + h.namespace + ".svc"),
		Secret:                 types.NamespacedName{Namespace: h.namespace, Name: deployment.ThrottleSecret},
		ExternalConfigurations: []string{ConfigurationName}, Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(), Interval: time.Minute, Clock: time.Now,
	})
	h.must(err)
	h.must(rotator.SetupWithManager(mgr))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		h.must(<-ended)
	}()

	status := func(reason string) func() bool {
		return func() bool {
			c := meta.FindStatusCondition(h.read(h.namespace, "default").Status.Conditions, v1alpha1.ConditionThrottleRegistered)
			return c != nil && c.Reason == reason
		}
	}
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "retail"}}
	h.limiter(h.namespace, "default", func(s *v1alpha1.LimiterSpec) {
		s.KubernetesThrottle.NamespacedPolicies, s.KubernetesThrottle.NamespacedPolicySelector = v1alpha1.NamespacedPoliciesSelected, team
	})
	noPolicies := status(v1alpha1.ReasonNoPolicies)
	fixture.Await(h, "the condition reports that no policy is selected", noPolicies)
	fixture.Await(h, "the cache has that condition", func() bool {
		var limiter v1alpha1.Limiter
		h.must(mgr.GetClient().Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: "default"}, &limiter))
		return len(limiter.Status.Conditions) == 1
	})

	// A policy exists for so short a time that the cache receives the condition of that time after the next reconciliation.
	delay.Lock()
	p := h.policy("pods", nil, "pods")
	fixture.Await(h, "the condition reports that no pod is ready for the policy", status(v1alpha1.ReasonNotReady))
	h.must(h.kube.Delete(t.Context(), p))
	fixture.Await(h, "the controller finds that no policy is selected", func() bool {
		return strings.Contains(problem.Load().(string), "No selected policy") //nolint:forcetypeassert // only strings are stored
	})
	delay.Unlock()
	fixture.Await(h, "the condition reports again that no policy is selected", noPolicies)

	shop := kubetest.Namespace(t, kube)
	h.must(h.kube.Create(t.Context(), &v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "pods", Namespace: shop}, Spec: p.Spec.RateLimitPolicySpec,
	}))
	ns := namespace(shop)
	_, err = kube.Kubectl(t.Context(), "label", "namespace", shop, "team=retail")
	h.must(err)
	fixture.Await(h, "the namespace is selected by its new label", status(v1alpha1.ReasonNotReady))
	h.setReplicas("default", 2, 0)
	fixture.Await(h, "the Limiter is registered", status(v1alpha1.ReasonRegistered))
	fixture.Await(h, "an event reports the registration", func() bool {
		var list eventsv1.EventList
		h.must(h.kube.List(t.Context(), &list, client.InNamespace(h.namespace)))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == v1alpha1.ReasonRegistered })
	})
	if c := h.configuration(); len(c.Webhooks[0].ClientConfig.CABundle) == 0 || c.Webhooks[0].NamespaceSelector.MatchExpressions[0].Values[0] != ns.Name {
		t.Errorf("webhook %+v", c.Webhooks[0])
	}
	h.must(h.kube.Delete(t.Context(), h.configuration()))
	fixture.Await(h, "the webhook is restored", func() bool { return len(h.webhooks()) == 1 })
	h.setReplicas("default", 0, 0)
	fixture.Await(h, "the Limiter without pods is no longer registered", func() bool {
		// Each change of a label makes the controller look at the time.
		change := fmt.Sprintf(`{"metadata":{"labels":{"changed":"%d"}}}`, time.Now().UnixNano())
		h.must(h.kube.Patch(t.Context(), namespace(shop), client.RawPatch(types.MergePatchType, []byte(change))))
		return status(v1alpha1.ReasonNotReady)()
	})
	h.setReplicas("default", 2, 0)
	fixture.Await(h, "the Limiter is registered again", status(v1alpha1.ReasonRegistered))
	h.must(h.kube.Delete(t.Context(), h.read(h.namespace, "default")))
	fixture.Await(h, "the webhook is removed", func() bool { return h.configuration() == nil })
}
