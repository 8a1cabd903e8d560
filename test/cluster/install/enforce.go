package install

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// Enforce installs Redis, a Limiter and the samples, and sends requests from a pod.
func (s Steps) Enforce(ctx context.Context) error {
	if err := s.StartLimiter(ctx); err != nil {
		return err
	}
	err := scenario.Sequence(
		s.Command("kubectl", "apply", "-k", "config/samples"),
		s.Command("kubectl", "apply", "-k", "config/samples/cluster"),
		s.Command("kubectl", "wait", "-n", "shop", "--for=condition=Ready", "ratelimitpolicies", "--all", "--timeout=60s"),
		s.Command("kubectl", "wait", "--for=condition=Ready", "clusterratelimitpolicy/login-attempts", "clusterratelimitpolicy/tenant-default", "--timeout=60s"),
		s.countPolicies,
	)(ctx)
	if err != nil {
		return err
	}
	load, err := s.StartLoad(ctx)
	if err != nil {
		return err
	}
	edit := s.EditWithin(load, 10*time.Second)
	if err := scenario.Sequence(s.exceedLimit, edit, edit, edit, s.ScaleTo(3), s.ScaleTo(2))(ctx); err != nil {
		return err
	}
	return s.StopLoad(ctx, load)
}

// countPolicies checks that both replicas enforce every policy for requests, that the Limiter reports their number, and that a policy for
// writes to the Kubernetes API reports that the Limiter does not throttle.
func (s Steps) countPolicies(ctx context.Context) error {
	var namespaced v1alpha1.RateLimitPolicyList
	if err := s.List(ctx, &namespaced); err != nil {
		return err
	}
	want := scenario.Ready("Programmed")
	want.Text = "all replicas enforce generation 1"
	for i := range namespaced.Items {
		err := scenario.CheckCondition(&namespaced.Items[i], want)
		s.Expect(err == nil, "%v", err)
	}
	total, err := s.PoliciesForRequests(ctx)
	if err != nil {
		return err
	}
	writes := &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes-workloads-per-tenant"}}
	s.Within(ctx, 5*time.Second, "a policy for writes is not admitted", s.HasCondition(writes, scenario.Condition{
		Kind: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonNotAdmitted, Status: metav1.ConditionFalse, Text: "has no spec.kubernetesThrottle",
	}))
	s.Within(ctx, 5*time.Second, fmt.Sprintf("the Limiter counts %d policies", total), s.CountsPolicies(total))
	return nil
}

// exceedLimit sends 40 requests of one tenant. A sample policy admits 30 per minute.
func (s Steps) exceedLimit(ctx context.Context) error {
	saw, err := s.SendRequests(ctx, "-domain", "shop", "-requests", "40", "-rate", "200", "-request", "1 /v1/reports 1")
	if err != nil {
		return err
	}
	s.Logf("a pod sends 40 requests, a sample policy admits 30 per minute: %v", saw)
	s.Expect(saw.Failed() == 0 && saw.Answered()-saw.Denied() == 30 && saw.Denied() == 10, "want 30 admitted and 10 denied requests")
	return nil
}
