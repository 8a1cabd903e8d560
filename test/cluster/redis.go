package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/journal"
)

// forgetCounters replaces the Redis, which keeps nothing, and waits until Weir has noticed.
func (s *story) forgetCounters(ctx context.Context) error {
	return inOrder(s.restarts(redisPods), until(s.healthy()))(ctx)
}

// healthy looks whether the Limiter and the policies of the load are as they should be.
func (s *story) healthy() step {
	limiter, p := limiterNamed(system, "default"), policyNamed(traffic, steadyPolicy)
	return inOrder(s.says(limiter, ready("Deployed")), s.says(p, ready("Programmed")),
		s.saysNot(limiter, v1alpha1.ConditionDegraded), s.saysNot(p, v1alpha1.ConditionDegraded))
}

// loseRedis kills the pod of Redis, and then takes it away for a while.
func loseRedis(ctx context.Context, s *story) error {
	load, err := s.resumeLoad(ctx)
	if err != nil {
		return err
	}
	_, err = s.meanwhile(ctx, load, "the pod of Redis is killed", inOrder(
		s.deletesPod(redisPods, "--grace-period=0", "--force"), until(s.rolled(system, redisPods)), until(s.healthy()),
		s.decidesFrom(load, "redis"),
	))
	if err != nil {
		return err
	}
	seen, err := s.meanwhile(ctx, load, "Redis is away", func(ctx context.Context) error { return s.takeRedisAway(ctx, load) })
	if err != nil {
		return err
	}
	s.expect(seen.Of("local") > 0, "nothing was decided without Redis")
	return s.stopLoad(ctx, load)
}

// takeRedisAway has no Redis until the outage is told everywhere, and then one again.
func (s *story) takeRedisAway(ctx context.Context, load loadPod) error {
	limiter, p := limiterNamed(system, "default"), policyNamed(traffic, steadyPolicy)
	degraded := saying{kind: v1alpha1.ConditionDegraded, status: metav1.ConditionTrue, reason: "StoreUnreachable"}
	return inOrder(
		s.types("kubectl", "-n", system, "scale", "deployment/redis", "--replicas=0"),
		func(ctx context.Context) error {
			s.within(ctx, 20*time.Second, "the Limiter says Degraded", s.says(limiter, degraded))
			s.within(ctx, 20*time.Second, "a policy says Degraded", s.says(p, degraded))
			s.say("  %s", conditionText(limiter, v1alpha1.ConditionDegraded))
			return nil
		},
		s.decidesFrom(load, "local"),
		s.types("kubectl", "-n", system, "scale", "deployment/redis", "--replicas=1"),
		until(s.rolled(system, redisPods)),
		func(ctx context.Context) error {
			s.within(ctx, 20*time.Second, "Redis is ready, and nothing is Degraded", s.healthy())
			return nil
		},
		s.decidesFrom(load, "redis"),
	)(ctx)
}

// decidesFrom waits until all that a second brings is from that source, known denials aside.
func (s *story) decidesFrom(load loadPod, source string) step {
	return func(ctx context.Context) error {
		since := time.Now()
		took, err := await(ctx, 30*time.Second, func(ctx context.Context) error {
			j, err := s.journalOf(ctx, load)
			if err != nil {
				return err
			}
			return last(j, since, source)
		})
		if err == nil {
			s.say("all decisions are from %s after %v", source, took.Round(100*time.Millisecond))
		}
		return err
	}
}

// last looks whether the last second, which has to be of that time, is from the source.
func last(j journal.Journal, since time.Time, source string) error {
	if j.End().Before(since) {
		return errors.New("the load has not told yet")
	}
	is := j[len(j)-1]
	if n := is.Of(source) + is.Of("cache"); n == 0 || n < is.Answered() {
		return fmt.Errorf("not all decisions are from %s: %v", source, is)
	}
	return nil
}
