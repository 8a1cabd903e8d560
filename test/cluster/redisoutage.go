package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/loadstats"
)

// failRedis kills the pod of Redis, and then stops Redis for some time.
func (s disruptionSteps) failRedis(ctx context.Context) error {
	load, err := s.resumeLoad(ctx)
	if err != nil {
		return err
	}
	_, err = s.underLoad(ctx, load, "the pod of Redis is killed", sequence(
		s.deletePod(redisPods, "--grace-period=0", "--force"), waitUntil(s.rolledOut(system, redisPods)), waitUntil(s.healthy()),
		s.decidesFrom(load, "redis"),
	))
	if err != nil {
		return err
	}
	seen, err := s.underLoad(ctx, load, "Redis is unavailable", func(ctx context.Context) error { return s.stopRedis(ctx, load) })
	if err != nil {
		return err
	}
	s.expect(seen.FromSource("local") > 0, "no request was decided in local mode")
	return s.stopLoad(ctx, load)
}

// stopRedis stops Redis until the Limiter and a policy report the outage, and starts it again.
func (s disruptionSteps) stopRedis(ctx context.Context, load loadPod) error {
	limiter, p := limiterNamed(system, "default"), policyNamed(traffic, steadyPolicy)
	degraded := condition{kind: v1alpha1.ConditionDegraded, status: metav1.ConditionTrue, reason: "StoreUnreachable"}
	return sequence(
		s.command("kubectl", "-n", system, "scale", "deployment/redis", "--replicas=0"),
		func(ctx context.Context) error {
			s.within(ctx, 20*time.Second, "the Limiter is Degraded", s.hasCondition(limiter, degraded))
			s.within(ctx, 20*time.Second, "a policy is Degraded", s.hasCondition(p, degraded))
			s.logf("  %s", conditionText(limiter, v1alpha1.ConditionDegraded))
			return nil
		},
		s.decidesFrom(load, "local"),
		s.command("kubectl", "-n", system, "scale", "deployment/redis", "--replicas=1"),
		waitUntil(s.rolledOut(system, redisPods)),
		func(ctx context.Context) error {
			s.within(ctx, 20*time.Second, "after Redis is ready, the Limiter and the policy are not Degraded", s.healthy())
			return nil
		},
		s.decidesFrom(load, "redis"),
	)(ctx)
}

// decidesFrom waits until all decisions of a second are from the source or are known denials.
func (s disruptionSteps) decidesFrom(load loadPod, source string) action {
	return func(ctx context.Context) error {
		since := time.Now()
		took, err := await(ctx, 30*time.Second, func(ctx context.Context) error {
			j, err := s.loadStats(ctx, load)
			if err != nil {
				return err
			}
			return checkLastSecond(j, since, source)
		})
		if err == nil {
			s.logf("all decisions are from %s after %v", source, took.Round(100*time.Millisecond))
		}
		return err
	}
}

// checkLastSecond checks that the last second ends after since, and that all its decisions are from the source.
func checkLastSecond(j loadstats.Series, since time.Time, source string) error {
	if j.End().Before(since) {
		return errors.New("the load has not reported yet")
	}
	is := j[len(j)-1]
	if n := is.FromSource(source) + is.FromSource("cache"); n == 0 || n < is.Answered() {
		return fmt.Errorf("not all decisions are from %s: %v", source, is)
	}
	return nil
}
