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

// enforce has Redis, a Limiter and the samples in the cluster, and asks from a pod.
func enforce(ctx context.Context, s *story) error {
	if err := s.startLimiter(ctx); err != nil {
		return err
	}
	err := inOrder(
		s.types("kubectl", "apply", "-k", "config/samples"),
		s.types("kubectl", "apply", "-k", "config/samples/cluster"),
		s.types("kubectl", "wait", "-n", "shop", "--for=condition=Ready", "ratelimitpolicies", "--all", "--timeout=60s"),
		s.types("kubectl", "wait", "--for=condition=Ready", "clusterratelimitpolicies", "--all", "--timeout=60s"),
		s.countPolicies,
	)(ctx)
	if err != nil {
		return err
	}
	load, err := s.startLoad(ctx)
	if err != nil {
		return err
	}
	edit := s.edits(load, 10*time.Second)
	if err := inOrder(s.askTooMuch, edit, edit, edit, s.scales(3), s.scales(2))(ctx); err != nil {
		return err
	}
	return s.stopLoad(ctx, load)
}

// startLimiter does step 3 of docs/how-to/install.md.
func (s *story) startLimiter(ctx context.Context) error {
	redis, err := s.quietly(ctx, "", "kubectl", "kustomize", "config/redis")
	if err != nil {
		return err
	}
	redis = strings.ReplaceAll(redis, "image: redis:7", "image: "+s.plan.redis)
	if _, err := s.pipe(ctx, redis, "kubectl", "apply", "-f", "-"); err != nil {
		return err
	}
	return inOrder(
		s.types("kubectl", "apply", "-f", "config/samples/limiter/default.yaml"),
		s.types("kubectl", "-n", system, "rollout", "status", "deployment/redis", "--timeout=2m"),
		s.types("kubectl", "-n", system, "wait", "--for=condition=Ready", "limiter/default", "--timeout=2m"),
	)(ctx)
}

// countPolicies checks that every policy says that both replicas enforce it, and that the Limiter counts as many.
func (s *story) countPolicies(ctx context.Context) error {
	var namespaced v1alpha1.RateLimitPolicyList
	var cluster v1alpha1.ClusterRateLimitPolicyList
	if err := errors.Join(s.List(ctx, &namespaced), s.List(ctx, &cluster)); err != nil {
		return err
	}
	want := ready("Programmed")
	want.text = "2 of 2 replicas enforce generation 1"
	for i := range namespaced.Items {
		err := said(&namespaced.Items[i], want)
		s.expect(err == nil, "%v", err)
	}
	total := int32(len(namespaced.Items) + len(cluster.Items))
	s.within(ctx, 5*time.Second, fmt.Sprintf("the Limiter counts %d policies", total), s.counts(total))
	return nil
}

// counts looks whether the Limiter says that all is well with two replicas and so many policies.
func (s *story) counts(policies int32) step {
	limiter := limiterNamed(system, "default")
	return func(ctx context.Context) error {
		if err := s.says(limiter, ready("Deployed"))(ctx); err != nil {
			return err
		}
		is := limiter.Status
		if is.Policies == nil || is.Policies.Accepted != policies || is.Redis == nil || !is.Redis.Reachable || is.ReadyReplicas != 2 {
			return fmt.Errorf("its status is %+v", is)
		}
		return nil
	}
}

// askTooMuch sends 40 requests of one tenant, of which a sample admits 30 a minute.
func (s *story) askTooMuch(ctx context.Context) error {
	asker, err := s.ask(ctx, "asker", "-domain", "shop", "-requests", "40", "-rate", "200", "-ask", "1 /v1/reports 1")
	if err != nil {
		return err
	}
	saw, err := s.finished(ctx, asker)
	if err != nil {
		return err
	}
	s.say("a pod asks 40 times for what a sample admits 30 times a minute: %v", saw)
	s.expect(saw.Failed() == 0 && saw.Answered()-saw.Denied() == 30 && saw.Denied() == 10, "want 30 requests admitted and 10 denied")
	return s.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: asker.name.Namespace, Name: asker.name.Name}})
}

// scales waits until every policy is enforced by as many replicas.
func (s *story) scales(replicas int) step {
	want := ready("Programmed")
	want.text = fmt.Sprintf("%d of %d replicas", replicas, replicas)
	enforced := inOrder(s.says(limiterNamed(system, "default"), ready("Deployed")), s.says(policyNamed(traffic, steadyPolicy), want))
	return inOrder(
		s.types("kubectl", "-n", system, "scale", "limiter/default", fmt.Sprintf("--replicas=%d", replicas)),
		func(ctx context.Context) error {
			s.within(ctx, 60*time.Second, fmt.Sprintf("%d replicas are ready and enforce", replicas), enforced)
			return nil
		},
		until(s.rolled(system, limiterPods)),
	)
}
