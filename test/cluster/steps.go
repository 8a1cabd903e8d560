package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// step is a part of the scenario. An error of do ends the scenario. After a failed check, the scenario continues.
type step struct {
	name string
	do   action
}

// runSteps runs the chosen steps. Afterwards its error says how many of them failed.
func (s *scenario) runSteps(ctx context.Context, steps []step, chosen *regexp.Regexp) error {
	began := time.Now()
	for i, step := range steps {
		if !chosen.MatchString(step.name) {
			continue
		}
		if err := s.runStep(ctx, i+1, step); err != nil {
			return err
		}
	}
	if len(s.pending) > 0 {
		finish := step{"what the last steps began is complete", sequence()}
		if err := s.runStep(ctx, len(steps)+1, finish); err != nil {
			return err
		}
	}
	s.printf("\nAfter %v: %d failed steps\n", time.Since(began).Round(time.Second), s.failedSteps)
	if s.failedSteps > 0 {
		return fmt.Errorf("%d failed steps", s.failedSteps)
	}
	return nil
}

// runStep runs one step. If the step or one of its checks fails, it saves diagnostics.
func (s *scenario) runStep(ctx context.Context, number int, step step) error {
	s.printf("\n%d. %s\n", number, step.name)
	s.failures = 0
	earlier := s.pending
	s.pending = nil
	began := time.Now()
	err := step.do(ctx)
	settle(earlier)
	s.printf("   (%v)\n", time.Since(began).Round(100*time.Millisecond))
	if err == nil && s.failures == 0 {
		return nil
	}
	s.failedSteps++
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diagnosticsTime)
	defer cancel()
	s.diagnose(ctx, fmt.Sprintf("%s/%02d", s.options.artifacts, number))
	if err != nil {
		return fmt.Errorf("%d. %s: %w", number, step.name, err)
	}
	return nil
}

// settle waits for the checks that were pending before this step.
func settle(pending []func()) {
	for _, wait := range pending {
		wait()
	}
}

// meanwhile is within for a check that takes long, while the next step runs. The next step reports the result.
func (s *scenario) meanwhile(ctx context.Context, limit time.Duration, what string, check action) {
	type outcome struct {
		took time.Duration
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		took, err := await(ctx, limit, check)
		done <- outcome{took, err}
	}()
	s.logf("meanwhile: %s", what)
	s.pending = append(s.pending, func() {
		o := <-done
		if o.err != nil {
			s.expect(false, "%s: %v", what, o.err)
		} else {
			s.logf("%s after %v", what, o.took.Round(10*time.Millisecond))
		}
	})
}

const (
	cleanupTime     = 3 * time.Minute
	diagnosticsTime = time.Minute
)

// diagnose saves logs, events and objects in dir. If a command fails, the file has the error.
func (s *scenario) diagnose(ctx context.Context, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.logf("cannot save diagnostics: %v", err)
		return
	}
	save := func(file string, args ...string) {
		text, err := s.quietly(ctx, "", args...)
		if err != nil {
			text += "\n" + err.Error()
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			s.logf("%v", err)
		}
	}
	save("pods.txt", "kubectl", "get", "pods", "-A", "-o", "wide")
	save("events.txt", "kubectl", "get", "events", "-A", "--sort-by=.metadata.creationTimestamp")
	save("weir.yaml", "kubectl", "get", "limiters,ratelimitpolicies,clusterratelimitpolicies", "-A", "-o", "yaml")
	for _, namespace := range []string{system, traffic, support, misconfigured} {
		save(namespace+".yaml", "kubectl", "-n", namespace, "get", "deployments,replicasets,pods,services,endpointslices,configmaps,leases", "-o", "yaml")
		pods, err := s.quietly(ctx, "", "kubectl", "-n", namespace, "get", "pods", "-o", "name")
		if err != nil {
			continue
		}
		for pod := range strings.FieldsSeq(pods) {
			name := strings.TrimPrefix(pod, "pod/")
			save(name+".log", "kubectl", "-n", namespace, "logs", pod, "--all-containers", "--timestamps")
			save(name+".previous.log", "kubectl", "-n", namespace, "logs", pod, "--all-containers", "--timestamps", "--previous")
		}
	}
	s.logf("diagnostics are in %s", dir)
}
