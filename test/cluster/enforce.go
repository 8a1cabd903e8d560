package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// enforce installs Redis, a Limiter and the samples, and sends requests from a pod.
func (s installSteps) enforce(ctx context.Context) error {
	if err := s.startLimiter(ctx); err != nil {
		return err
	}
	err := sequence(
		s.command("kubectl", "apply", "-k", "config/samples"),
		s.command("kubectl", "apply", "-k", "config/samples/cluster"),
		s.command("kubectl", "wait", "-n", "shop", "--for=condition=Ready", "ratelimitpolicies", "--all", "--timeout=60s"),
		s.command("kubectl", "wait", "--for=condition=Ready", "clusterratelimitpolicy/login-attempts", "clusterratelimitpolicy/tenant-default", "--timeout=60s"),
		s.countPolicies,
	)(ctx)
	if err != nil {
		return err
	}
	load, err := s.startLoad(ctx)
	if err != nil {
		return err
	}
	edit := s.editWithin(load, 10*time.Second)
	if err := sequence(s.exceedLimit, edit, edit, edit, s.scaleTo(3), s.scaleTo(2))(ctx); err != nil {
		return err
	}
	return s.stopLoad(ctx, load)
}

// countPolicies checks that both replicas enforce every policy for requests, that the Limiter reports their number, and that a policy for
// writes to the Kubernetes API reports that the Limiter does not throttle.
func (s installSteps) countPolicies(ctx context.Context) error {
	var namespaced v1alpha1.RateLimitPolicyList
	if err := s.List(ctx, &namespaced); err != nil {
		return err
	}
	want := ready("Programmed")
	want.text = "all replicas enforce generation 1"
	for i := range namespaced.Items {
		err := checkCondition(&namespaced.Items[i], want)
		s.expect(err == nil, "%v", err)
	}
	total, err := s.policiesForRequests(ctx)
	if err != nil {
		return err
	}
	writes := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes-workloads-per-tenant"}}
	s.within(ctx, 5*time.Second, "a policy for writes is not admitted", s.hasCondition(writes, condition{kind: v1alpha1.ConditionReady, reason: v1alpha1.ReasonNotAdmitted, status: metav1.ConditionFalse, text: "has no spec.kubernetesThrottle"}))
	s.within(ctx, 5*time.Second, fmt.Sprintf("the Limiter counts %d policies", total), s.countsPolicies(total))
	return nil
}

// exceedLimit sends 40 requests of one tenant. A sample policy admits 30 per minute.
func (s installSteps) exceedLimit(ctx context.Context) error {
	saw, err := s.sendRequests(ctx, "-domain", "shop", "-requests", "40", "-rate", "200", "-request", "1 /v1/reports 1")
	if err != nil {
		return err
	}
	s.logf("a pod sends 40 requests, a sample policy admits 30 per minute: %v", saw)
	s.expect(saw.Failed() == 0 && saw.Answered()-saw.Denied() == 30 && saw.Denied() == 10, "want 30 admitted and 10 denied requests")
	return nil
}
