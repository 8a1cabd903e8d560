// Package commands has the steps that run kubectl weir, also when something is wrong.
package commands

import (
	"context"
	"strings"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// Steps are the steps of a scenario.
type Steps struct{ *scenario.Scenario }

// ReachLimiters runs the commands that reach limiters through the operator, over a port that the API server forwards. Processes on one machine, as in
// test/e2e, cannot forward ports.
func (s Steps) ReachLimiters(ctx context.Context) error {
	limiter := "--limiter=" + scenario.System + "/default"
	rules, err := s.Pipe(ctx, "", s.Options.Plugin, "rules", limiter)
	if err != nil {
		return err
	}
	s.Expect(strings.Contains(rules, scenario.Traffic+"/"+scenario.HotPolicy), "weir rules lists no policy %s/%s", scenario.Traffic, scenario.HotPolicy)
	status, err := s.Pipe(ctx, "", s.Options.Plugin, "status")
	// The samples that limit writes have no Limiter for them yet. That is the only problem.
	s.Expect(err != nil && strings.Contains(status, "NotAdmitted") && !strings.Contains(status, "Problem 2"), "weir status: %v\n%s", err, status)
	err = s.Run(ctx, s.Options.Plugin, "counters", "reset", "customer", "--policy="+scenario.Traffic+"/"+scenario.HotPolicy, "--reason=cluster test", limiter)
	if err != nil {
		return err
	}
	events, err := s.Pipe(ctx, "", "kubectl", "-n", scenario.Traffic, "get", "events", "--field-selector=reason=Reset", "-o=jsonpath={.items[*].message}")
	if err != nil {
		return err
	}
	s.Expect(strings.Contains(events, "cluster test") && strings.Contains(events, "2 of 2 replicas"), "no Event about the reset: %q", events)
	return nil
}
