package main

import (
	"context"
	"strings"
)

// commandSteps run the commands of users.
type commandSteps struct{ *scenario }

// ask runs the commands that reach limiters through the operator, over a port that the API server forwards. Processes on one machine, as in
// test/e2e, cannot forward ports.
func (s commandSteps) ask(ctx context.Context) error {
	limiter := "--limiter=" + system + "/default"
	rules, err := s.pipe(ctx, "", s.options.plugin, "rules", limiter)
	if err != nil {
		return err
	}
	s.expect(strings.Contains(rules, traffic+"/"+hotPolicy), "weir rules lists no policy %s/%s", traffic, hotPolicy)
	status, err := s.pipe(ctx, "", s.options.plugin, "status")
	// The samples that limit writes have no Limiter for them yet. That is the only problem.
	s.expect(err != nil && strings.Contains(status, "NotAdmitted") && !strings.Contains(status, "Problem 2"), "weir status: %v\n%s", err, status)
	err = s.run(ctx, s.options.plugin, "counters", "reset", "customer", "--policy="+traffic+"/"+hotPolicy, "--reason=cluster test", limiter)
	if err != nil {
		return err
	}
	events, err := s.pipe(ctx, "", "kubectl", "-n", traffic, "get", "events", "--field-selector=reason=Reset", "-o=jsonpath={.items[*].message}")
	if err != nil {
		return err
	}
	s.expect(strings.Contains(events, "cluster test") && strings.Contains(events, "2 of 2 replicas"), "no Event about the reset: %q", events)
	return nil
}
