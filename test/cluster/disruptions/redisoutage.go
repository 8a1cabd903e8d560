package disruptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/loadstats"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// FailRedis kills the pod of Redis, and then stops Redis for some time.
func (s Steps) FailRedis(ctx context.Context) error {
	load, err := s.ResumeLoad(ctx)
	if err != nil {
		return err
	}
	_, err = s.UnderLoad(ctx, load, "the pod of Redis is killed", scenario.Sequence(
		s.deletePod(scenario.RedisPods, "--grace-period=0", "--force"),
		scenario.WaitUntil(s.RolledOut(scenario.System, scenario.RedisPods)),
		scenario.WaitUntil(s.Healthy()),
		s.decidesFrom(load, "redis"),
	))
	if err != nil {
		return err
	}
	seen, err := s.UnderLoad(ctx, load, "Redis is unavailable", func(ctx context.Context) error { return s.stopRedis(ctx, load) })
	if err != nil {
		return err
	}
	s.Expect(seen.FromSource("local") > 0, "no request was decided in local mode")
	return s.StopLoad(ctx, load)
}

// stopRedis stops Redis until the Limiter reports the outage, and starts it again.
func (s Steps) stopRedis(ctx context.Context, load scenario.Load) error {
	limiter, p := scenario.LimiterNamed(scenario.System, "default"), scenario.PolicyNamed(scenario.Traffic, scenario.SteadyPolicy)
	degraded := scenario.Condition{Kind: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: "StoreUnreachable"}
	return scenario.Sequence(
		s.Command("kubectl", "-n", scenario.System, "scale", "deployment/redis", "--replicas=0"),
		func(ctx context.Context) error {
			s.Within(ctx, 20*time.Second, "the Limiter is Degraded", s.HasCondition(limiter, degraded))
			err := s.LacksCondition(p, v1alpha1.ConditionDegraded)(ctx)
			s.Expect(err == nil, "the outage is in the status of a policy: %v", err)
			s.Logf("  %s", scenario.ConditionText(limiter, v1alpha1.ConditionDegraded))
			return nil
		},
		s.decidesFrom(load, "local"),
		s.Command("kubectl", "-n", scenario.System, "scale", "deployment/redis", "--replicas=1"),
		scenario.WaitUntil(s.RolledOut(scenario.System, scenario.RedisPods)),
		func(ctx context.Context) error {
			s.Within(ctx, 20*time.Second, "after Redis is ready, the Limiter is not Degraded", s.Healthy())
			return nil
		},
		s.decidesFrom(load, "redis"),
	)(ctx)
}

// decidesFrom waits until all decisions of a second are from the source or are known denials.
func (s Steps) decidesFrom(load scenario.Load, source string) scenario.Action {
	return func(ctx context.Context) error {
		since := time.Now()
		took, err := scenario.Await(ctx, 30*time.Second, func(ctx context.Context) error {
			j, err := s.LoadStats(ctx, load)
			if err != nil {
				return err
			}
			return checkLastSecond(j, since, source)
		})
		if err == nil {
			s.Logf("all decisions are from %s after %v", source, took.Round(100*time.Millisecond))
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
