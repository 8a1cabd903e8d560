// Package throttle has the step in which a Limiter limits writes to the Kubernetes API.
package throttle

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// Steps are the steps of a scenario.
type Steps struct{ *scenario.Scenario }

// ThrottleKubernetes makes the API server call the Limiter before writes: of a tenant that exceeds its limit, of a tenant that does not, and
// during outages of the limiters, of Redis and of the certificate. At the end it restores the samples, so that later steps delete a Limiter
// that the API server calls.
func (s Steps) ThrottleKubernetes(ctx context.Context) (err error) {
	if err := s.deleteSamplesOfWrites(ctx); err != nil {
		return err
	}
	w := &tenants{Scenario: s.Scenario}
	defer func() { err = errors.Join(err, w.end(ctx)) }()
	return scenario.Sequence(
		w.start,
		w.ResetCounters, // of an earlier run, with -resume
		w.startThrottling,
		w.exceedTheLimit,
		w.compareLatency,
		w.rollOutDuringFlood,
		w.removeLimiters,
		w.limitEverything,
		w.decideWithoutRedis,
		w.renewThrottleCertificate,
		w.stopThrottling,
	)(ctx)
}

// deleteSamplesOfWrites deletes the samples that limit writes. stopThrottling restores them.
func (s Steps) deleteSamplesOfWrites(ctx context.Context) error {
	var samples v1alpha1.ClusterRateLimitPolicyList
	if err := s.List(ctx, &samples); err != nil {
		return err
	}
	for i := range samples.Items {
		p := &samples.Items[i]
		if p.Spec.Match == nil || p.Spec.Match.Kubernetes == nil {
			continue
		}
		if err := s.Run(ctx, "kubectl", "delete", "clusterratelimitpolicy", p.Name); err != nil {
			return err
		}
	}
	return nil
}

// startThrottling turns on spec.kubernetesThrottle. Without policies, the API server does not call the limiters.
func (w *tenants) startThrottling(ctx context.Context) error {
	limiter := scenario.LimiterNamed(scenario.System, "default")
	if err := w.setThrottle(`{}`)(ctx); err != nil {
		return err
	}
	noPolicies := scenario.Condition{
		Kind: v1alpha1.ConditionThrottleRegistered, Reason: v1alpha1.ReasonNoPolicies, Status: metav1.ConditionFalse,
	}
	return scenario.Sequence(
		scenario.WaitUntil(w.HasCondition(limiter, noPolicies)),
		scenario.WaitUntil(w.RolledOut(scenario.System, scenario.LimiterPods)),
		scenario.WaitUntil(w.HasCondition(limiter, scenario.Ready("Deployed"))),
		w.isUnregistered,
	)(ctx)
}

// setThrottle patches spec.kubernetesThrottle of the Limiter.
func (w *tenants) setThrottle(value string) scenario.Action {
	return w.Command("kubectl", "-n", scenario.System, "patch", "limiter", "default", "--type=merge", "-p", `{"spec":{"kubernetesThrottle":`+value+`}}`)
}

// stopThrottling deletes the policies, which unregisters the webhook, and restores the samples.
func (w *tenants) stopThrottling(ctx context.Context) error {
	if err := scenario.Sequence(w.setThrottle(`{"failurePolicy":null}`), w.deletePolicies)(ctx); err != nil {
		return err
	}
	w.Within(ctx, 15*time.Second, "without policies the webhook is unregistered", w.isUnregistered)
	if err := w.Run(ctx, "kubectl", "apply", "-k", "config/samples/cluster"); err != nil {
		return err
	}
	w.Within(ctx, 15*time.Second, "with the samples the webhook is registered again", w.isRegistered)
	return nil
}

// perTenant returns a limit per minute for each of the tenants.
func perTenant(name string, limit int64, resources ...v1alpha1.KubernetesResources) *v1alpha1.ClusterRateLimitPolicy {
	p := scenario.LimitWrites(name, limit, resources...)
	p.Spec.Match.Kubernetes.Namespaces = []v1alpha1.NamespaceName{tenantA, tenantB}
	return p
}

// probePolicy returns a policy for the same writes in the namespace probeNamespace. It denies even dry runs, which shows that the API server
// calls the webhook.
func probePolicy(p *v1alpha1.ClusterRateLimitPolicy) *v1alpha1.ClusterRateLimitPolicy {
	i := scenario.LimitWrites(p.Name+"-probe", 1, p.Spec.Match.Kubernetes.Resources...)
	i.Spec.Match.Kubernetes.Namespaces = []v1alpha1.NamespaceName{probeNamespace}
	i.Spec.Cost = &v1alpha1.Cost{Expression: new(v1alpha1.Expression("2"))}
	return i
}

// applyPolicies replaces the policies of this step, and waits until replicas enforce them and the API server calls the webhook for them.
func (w *tenants) applyPolicies(policies ...*v1alpha1.ClusterRateLimitPolicy) scenario.Action {
	return func(ctx context.Context) error {
		if err := w.deletePolicies(ctx); err != nil {
			return err
		}
		for _, p := range append(policies, probePolicy(policies[0])) {
			if err := w.CreateAll(ctx, p); err != nil {
				return err
			}
			w.policies = append(w.policies, p)
		}
		began := time.Now()
		for _, p := range w.policies {
			w.WithinSince(ctx, began, 15*time.Second, "policy "+p.GetName()+" is Ready", w.HasCondition(p, scenario.Ready("Programmed")))
		}
		w.WithinSince(ctx, began, 15*time.Second, "the API server calls the webhook", scenario.Sequence(w.isRegistered, w.webhookIsCalled))
		return nil
	}
}

// deletePolicies deletes the policies of this step.
func (w *tenants) deletePolicies(ctx context.Context) error {
	for _, p := range w.policies {
		if err := client.IgnoreNotFound(w.Delete(ctx, p)); err != nil {
			return err
		}
	}
	w.policies = nil
	return nil
}

func throttleConfiguration() *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "weir-throttle"}}
}

func (w *tenants) isUnregistered(ctx context.Context) error {
	return w.Deleted(throttleConfiguration())(ctx)
}

func (w *tenants) isRegistered(ctx context.Context) error {
	registered := scenario.Condition{Kind: v1alpha1.ConditionThrottleRegistered, Reason: v1alpha1.ReasonRegistered, Status: metav1.ConditionTrue}
	if err := w.HasCondition(scenario.LimiterNamed(scenario.System, "default"), registered)(ctx); err != nil {
		return err
	}
	configuration := throttleConfiguration()
	if err := w.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
		return err
	}
	if len(configuration.Webhooks) != 1 {
		return fmt.Errorf("%d webhooks, want 1", len(configuration.Webhooks))
	}
	return nil
}
