package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// throttleKubernetes has API servers ask the Limiter about writes: of a tenant that creates too much, beside one that does
// not, and while the limiters, Redis and the certificate go away. At the end they ask by the samples, so that the chapters
// after this one take a Limiter away that is asked.
func throttleKubernetes(ctx context.Context, s *story) (err error) {
	if err := s.deleteSamplesOfWrites(ctx); err != nil {
		return err
	}
	w, err := s.startTenants(ctx)
	defer func() { err = errors.Join(err, w.end(ctx)) }()
	if err != nil {
		return err
	}
	return inOrder(
		w.forgetCounters, // of a run just before, for those who resume
		w.startThrottling,
		w.createTooMuch,
		w.compareLatency,
		w.besideFlood,
		w.loseLimiters,
		w.limitEverything,
		w.decideWithoutRedis,
		w.renewThrottleCertificate,
		w.stopThrottling,
	)(ctx)
}

// deleteSamplesOfWrites deletes the samples that limit writes, for as long as the story limits them otherwise.
func (s *story) deleteSamplesOfWrites(ctx context.Context) error {
	var samples v1alpha1.ClusterRateLimitPolicyList
	if err := s.List(ctx, &samples); err != nil {
		return err
	}
	for i := range samples.Items {
		p := &samples.Items[i]
		if p.Spec.Match == nil || p.Spec.Match.Kubernetes == nil {
			continue
		}
		if err := s.run(ctx, "kubectl", "delete", "clusterratelimitpolicy", p.Name); err != nil {
			return err
		}
	}
	return nil
}

// startThrottling has the pods answer API servers; without policies nobody asks them.
func (w *writers) startThrottling(ctx context.Context) error {
	limiter := limiterNamed(system, "default")
	if err := w.throttles(`{}`)(ctx); err != nil {
		return err
	}
	return inOrder(
		until(w.says(limiter, saying{v1alpha1.ConditionThrottleRegistered, v1alpha1.ReasonNoPolicies, metav1.ConditionFalse, ""})),
		until(w.rolled(system, limiterPods)),
		until(w.says(limiter, ready("Deployed"))),
		w.isWithdrawn,
	)(ctx)
}

// throttles changes spec.kubernetesThrottle of the Limiter.
func (s *story) throttles(how string) step {
	return s.types("kubectl", "-n", system, "patch", "limiter", "default", "--type=merge", "-p", `{"spec":{"kubernetesThrottle":`+how+`}}`)
}

// stopThrottling deletes the policies, after which nobody is asked, and brings the samples back.
func (w *writers) stopThrottling(ctx context.Context) error {
	if err := inOrder(w.throttles(`{"failurePolicy":null}`), w.forget)(ctx); err != nil {
		return err
	}
	w.within(ctx, 15*time.Second, "without policies the webhook is withdrawn", w.isWithdrawn)
	if err := w.run(ctx, "kubectl", "apply", "-k", "config/samples/cluster"); err != nil {
		return err
	}
	w.within(ctx, 15*time.Second, "with the samples it is there again", w.isRegistered)
	return nil
}

func configMaps() v1alpha1.KubernetesResources {
	return v1alpha1.KubernetesResources{
		APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"configmaps"},
		Operations: []v1alpha1.Operation{v1alpha1.OperationCreate},
	}
}

// perTenant is a limit a minute for each of the tenants, exactly counted.
func perTenant(name string, limit int64, resources ...v1alpha1.KubernetesResources) *v1alpha1.ClusterRateLimitPolicy {
	p := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: mine()}}
	p.Spec.RateLimitPolicySpec = v1alpha1.RateLimitPolicySpec{
		Axis: v1alpha1.AxisTenant, Limit: limit, Window: "1m", Algorithm: v1alpha1.SlidingWindowLog,
		Match: &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{
			Resources: resources, Namespaces: []v1alpha1.NamespaceName{tenantA, tenantB},
		}},
	}
	return p
}

// impossible is a policy about the same writes, in a namespace of its own, that denies even a dry run: by it is seen that an
// API server asks.
func impossible(p *v1alpha1.ClusterRateLimitPolicy) *v1alpha1.ClusterRateLimitPolicy {
	i := perTenant(p.Name+"-asked", 1, p.Spec.Match.Kubernetes.Resources...)
	i.Spec.Match.Kubernetes.Namespaces = []v1alpha1.NamespaceName{asked}
	i.Spec.Cost = &v1alpha1.Cost{Expression: new(v1alpha1.Expression("2"))}
	return i
}

// limits replaces the policies of the story, and waits until API servers ask by the new ones and replicas know them.
func (w *writers) limits(policies ...*v1alpha1.ClusterRateLimitPolicy) step {
	return func(ctx context.Context) error {
		if err := w.forget(ctx); err != nil {
			return err
		}
		for _, p := range append(policies, impossible(policies[0])) {
			if err := w.create(ctx, p); err != nil {
				return err
			}
			w.policies = append(w.policies, p)
		}
		began := time.Now()
		for _, p := range w.policies {
			w.withinOf(ctx, began, 15*time.Second, "policy "+p.GetName()+" is Ready", w.says(p, ready("Programmed")))
		}
		w.withinOf(ctx, began, 15*time.Second, "API servers ask about it", inOrder(w.isRegistered, w.isAsked))
		return nil
	}
}

// forget deletes the policies of the story.
func (w *writers) forget(ctx context.Context) error {
	for _, p := range w.policies {
		if err := client.IgnoreNotFound(w.Delete(ctx, p)); err != nil {
			return err
		}
	}
	w.policies = nil
	return nil
}

func webhookOfLimiters() *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "weir-throttle"}}
}

func (s *story) isWithdrawn(ctx context.Context) error { return s.gone(webhookOfLimiters())(ctx) }

func (s *story) isRegistered(ctx context.Context) error {
	registered := saying{v1alpha1.ConditionThrottleRegistered, v1alpha1.ReasonRegistered, metav1.ConditionTrue, ""}
	if err := s.says(limiterNamed(system, "default"), registered)(ctx); err != nil {
		return err
	}
	configuration := webhookOfLimiters()
	if err := s.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
		return err
	}
	if len(configuration.Webhooks) != 1 {
		return fmt.Errorf("%d webhooks, want 1", len(configuration.Webhooks))
	}
	return nil
}
