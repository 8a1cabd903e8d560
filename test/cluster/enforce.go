package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// enforce installs Redis, a Limiter and the samples, and sends requests from a pod.
func enforce(ctx context.Context, s *scenario) error {
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

// startLimiter runs step 3 of docs/how-to/install.md.
func (s *scenario) startLimiter(ctx context.Context) error {
	return sequence(
		s.startRedis,
		s.command("kubectl", "apply", "-f", "config/samples/limiter/default.yaml"),
		s.command("kubectl", "-n", system, "rollout", "status", "deployment/redis", "--timeout=2m"),
		s.command("kubectl", "-n", system, "wait", "--for=condition=Ready", "limiter/default", "--timeout=2m"),
	)(ctx)
}

// startRedis installs Redis with the image of the test, and with a short grace period, as in shortenGrace.
func (s *scenario) startRedis(ctx context.Context) error {
	redis, err := s.quietly(ctx, "", "kubectl", "kustomize", "config/redis")
	if err != nil {
		return err
	}
	redis = strings.NewReplacer(
		"image: redis:7", "image: "+s.options.redis,
		"enableServiceLinks: false", "enableServiceLinks: false\n      terminationGracePeriodSeconds: 5",
	).Replace(redis)
	_, err = s.pipe(ctx, redis, "kubectl", "apply", "-f", "-")
	return err
}

// policiesForRequests returns the number of policies that a Limiter without kubernetesThrottle enforces. All RateLimitPolicies are of that kind.
func (s *scenario) policiesForRequests(ctx context.Context) (int32, error) {
	var namespaced v1alpha1.RateLimitPolicyList
	var cluster v1alpha1.ClusterRateLimitPolicyList
	if err := errors.Join(s.List(ctx, &namespaced), s.List(ctx, &cluster)); err != nil {
		return 0, err
	}
	total := len(namespaced.Items)
	for i := range cluster.Items {
		if m := cluster.Items[i].Spec.Match; m == nil || m.Kubernetes == nil {
			total++
		}
	}
	return int32(total), nil
}

// countPolicies checks that both replicas enforce every policy for requests, that the Limiter reports their number, and that a policy for
// writes to the Kubernetes API reports that the Limiter does not throttle.
func (s *scenario) countPolicies(ctx context.Context) error {
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
	s.within(ctx, 5*time.Second, "a policy for writes is not admitted", s.hasCondition(writes, condition{
		v1alpha1.ConditionReady, v1alpha1.ReasonNotAdmitted, metav1.ConditionFalse, "has no spec.kubernetesThrottle",
	}))
	s.within(ctx, 5*time.Second, fmt.Sprintf("the Limiter counts %d policies", total), s.countsPolicies(total))
	return nil
}

// countsPolicies checks that the Limiter is Ready with two replicas, a reachable Redis and this number of policies.
func (s *scenario) countsPolicies(policies int32) action {
	limiter := limiterNamed(system, "default")
	return func(ctx context.Context) error {
		if err := s.hasCondition(limiter, ready("Deployed"))(ctx); err != nil {
			return err
		}
		is := limiter.Status
		if is.Policies == nil || is.Policies.Accepted != policies || is.Redis == nil || !is.Redis.Reachable || is.ReadyReplicas != 2 {
			return fmt.Errorf("the status of the Limiter is %+v", is)
		}
		return nil
	}
}

// exceedLimit sends 40 requests of one tenant. A sample policy admits 30 per minute.
func (s *scenario) exceedLimit(ctx context.Context) error {
	client, err := s.startPod(ctx, "client", "-domain", "shop", "-requests", "40", "-rate", "200", "-request", "1 /v1/reports 1")
	if err != nil {
		return err
	}
	saw, err := s.finished(ctx, client)
	if err != nil {
		return err
	}
	s.logf("a pod sends 40 requests, a sample policy admits 30 per minute: %v", saw)
	s.expect(saw.Failed() == 0 && saw.Answered()-saw.Denied() == 30 && saw.Denied() == 10, "want 30 admitted and 10 denied requests")
	return s.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: client.name.Namespace, Name: client.name.Name}})
}

// scaleTo scales the Limiter and waits until all replicas enforce a policy.
func (s *scenario) scaleTo(replicas int) action {
	want := ready("Programmed")
	want.text = "all replicas enforce"
	enforced := sequence(s.hasCondition(limiterNamed(system, "default"), ready("Deployed")), s.hasCondition(policyNamed(traffic, steadyPolicy), want))
	return sequence(
		s.command("kubectl", "-n", system, "scale", "limiter/default", fmt.Sprintf("--replicas=%d", replicas)),
		func(ctx context.Context) error {
			s.within(ctx, 60*time.Second, fmt.Sprintf("%d replicas are ready and enforce the policy", replicas), enforced)
			return nil
		},
		waitUntil(s.rolledOut(system, limiterPods)),
	)
}
