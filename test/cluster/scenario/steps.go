package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Step is a part of the scenario. An error of Do ends the scenario. After a failed check, the scenario continues.
type Step struct {
	Name string
	Do   Action
}

// RunSteps runs the chosen steps. Its error contains the number of failed steps.
func (s *Scenario) RunSteps(ctx context.Context, steps []Step, chosen *regexp.Regexp) error {
	began := time.Now()
	for i, step := range steps {
		if !chosen.MatchString(step.Name) {
			continue
		}
		if err := s.runStep(ctx, i+1, step); err != nil {
			return err
		}
	}
	if len(s.pending) > 0 {
		finish := Step{"what the last steps began is complete", Sequence()}
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
func (s *Scenario) runStep(ctx context.Context, number int, step Step) error {
	s.printf("\n%d. %s\n", number, step.Name)
	s.failures = 0
	earlier := s.pending
	s.pending = nil
	began := time.Now()
	err := step.Do(ctx)
	settle(earlier)
	s.printf("   (%v)\n", time.Since(began).Round(100*time.Millisecond))
	if err == nil && s.failures == 0 {
		return nil
	}
	s.failedSteps++
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diagnosticsTime)
	defer cancel()
	s.diagnose(ctx, fmt.Sprintf("%s/%02d", s.Options.Artifacts, number))
	if err != nil {
		return fmt.Errorf("%d. %s: %w", number, step.Name, err)
	}
	return nil
}

// settle waits for the checks that were pending before this step.
func settle(pending []func()) {
	for _, wait := range pending {
		wait()
	}
}

// Meanwhile is Within for a check that takes long, while the next step runs. The next step reports the result.
func (s *Scenario) Meanwhile(ctx context.Context, limit time.Duration, what string, check Action) {
	type outcome struct {
		took time.Duration
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		took, err := Await(ctx, limit, check)
		done <- outcome{took, err}
	}()
	s.Logf("meanwhile: %s", what)
	s.pending = append(s.pending, func() {
		o := <-done
		if o.err != nil {
			s.Expect(false, "%s: %v", what, o.err)
		} else {
			s.Logf("%s after %v", what, o.took.Round(10*time.Millisecond))
		}
	})
}

// The time limits for what follows the steps, also after an interrupt.
const (
	CleanupTime     = 3 * time.Minute
	diagnosticsTime = time.Minute
)

// diagnose saves logs, events and objects in dir. If a command fails, the file has the error.
func (s *Scenario) diagnose(ctx context.Context, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.Logf("cannot save diagnostics: %v", err)
		return
	}
	save := func(file string, args ...string) {
		text, err := s.Quietly(ctx, "", args...)
		if err != nil {
			text += "\n" + err.Error()
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			s.Logf("%v", err)
		}
	}
	save("pods.txt", "kubectl", "get", "pods", "-A", "-o", "wide")
	save("events.txt", "kubectl", "get", "events", "-A", "--sort-by=.metadata.creationTimestamp")
	save("weir.yaml", "kubectl", "get", "limiters,ratelimitpolicies,clusterratelimitpolicies", "-A", "-o", "yaml")
	for _, namespace := range []string{System, Traffic, Support, Misconfigured} {
		save(namespace+".yaml", "kubectl", "-n", namespace, "get", "deployments,replicasets,pods,services,endpointslices,configmaps,leases", "-o", "yaml")
		pods, err := s.Quietly(ctx, "", "kubectl", "-n", namespace, "get", "pods", "-o", "name")
		if err != nil {
			continue
		}
		for pod := range strings.FieldsSeq(pods) {
			name := strings.TrimPrefix(pod, "pod/")
			save(name+".log", "kubectl", "-n", namespace, "logs", pod, "--all-containers", "--timestamps")
			save(name+".previous.log", "kubectl", "-n", namespace, "logs", pod, "--all-containers", "--timestamps", "--previous")
		}
	}
	s.Logf("diagnostics are in %s", dir)
}
