// Command cluster tests Weir end to end on a real cluster: installed by manifest and by chart, under load during rollouts, outages of
// Redis and certificate rotations, with misconfigurations that are reported and repaired, upgraded, and uninstalled without leftovers.
// The scenario has several steps, each in its own file. make e2e runs all of them.
//
//	go run ./test/cluster -image weir:e2e -next weir:e2e-next -load weir-load:e2e
//
// KUBECONFIG names the cluster. It must not have Weir, and its nodes must have the images. The test removes everything it creates.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/weir-dev/weir/hack/command"
)

func main() {
	var o options
	// Not flag.CommandLine, on which controller-runtime defines the flag -kubeconfig.
	flags := flag.NewFlagSet("cluster", flag.ExitOnError)
	flags.StringVar(&o.image, "image", "weir:e2e", "image of Weir to install")
	flags.StringVar(&o.next, "next", "weir:e2e-next", "image of Weir to upgrade to; its content may be the same")
	flags.StringVar(&o.load, "load", "weir-load:e2e", "image of test/cluster/load")
	flags.StringVar(&o.redis, "redis", "redis:7", "image of Redis")
	flags.StringVar(&o.plugin, "plugin", "bin/e2e/kubectl-weir", "path of the program kubectl-weir")
	flags.StringVar(&o.steps, "steps", "", "regular expression of the steps to run (default: all)")
	flags.IntVar(&o.rate, "rate", 1000, "requests per second of the load")
	flags.BoolVar(&o.keep, "keep", os.Getenv("KEEP") != "", "leave everything in the cluster at the end; also KEEP=1")
	flags.BoolVar(&o.resume, "resume", false, "continue on what -keep has left, for -steps that need earlier steps")
	flags.StringVar(&o.artifacts, "artifacts", "dist/e2e", "directory for logs, events and objects of a failed step")
	_ = flags.Parse(os.Args[1:]) // ExitOnError: it does not return an error
	command.Main("e2e: FAILED", func(ctx context.Context) error { return run(ctx, o) })
}

// steps are in the order in which they run. Most of them need the objects of earlier steps.
func steps() []step {
	return []step{
		{"installed by manifest", installByManifest},
		{"a Limiter and its policies", enforce},
		{"the commands reach the limiters", ask},
		{"the commands answer on bad days", answerBadDays},
		{"rollouts and deleted pods under load", disruptUnderLoad},
		{"Redis fails under load", failRedis},
		{"misconfigurations are reported, and repaired", testMisconfigurations},
		{"certificates are renewed", renewCertificates},
		{"CRDs are upgraded", upgradeCRDs},
		{"a Limiter is deleted whose Redis is unreachable", deleteWithoutRedis},
		{"the Kubernetes API is throttled", throttleKubernetes},
		{"a Limiter is deleted", deleteLimiter},
		{"uninstalled", uninstall},
		{"deleted in every order", deleteInEveryOrder},
		{"installed by chart", installByChart},
	}
}

func run(ctx context.Context, o options) (err error) {
	chosen, err := regexp.Compile(o.steps)
	if err != nil {
		return fmt.Errorf("-steps %q: %w", o.steps, err)
	}
	if !slices.ContainsFunc(steps(), func(s step) bool { return chosen.MatchString(s.name) }) {
		return fmt.Errorf("-steps %q matches no step, for example %q; write . for a space, because hack/e2e.sh splits E2E at spaces", o.steps, steps()[0].name)
	}
	s, err := newScenario(o, os.Stdout)
	if err != nil {
		return err
	}
	if !o.resume {
		if err := s.checkNoWeir(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if o.keep {
			return
		}
		// Also after an interrupt.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		err = errors.Join(err, s.cleanUp(ctx))
	}()
	began := time.Now()
	for i, step := range steps() {
		if !chosen.MatchString(step.name) {
			continue
		}
		if err := s.runStep(ctx, i+1, step); err != nil {
			return err
		}
	}
	if len(s.pending) > 0 {
		finish := step{"what the last steps began is complete", func(context.Context, *scenario) error { return nil }}
		if err := s.runStep(ctx, len(steps())+1, finish); err != nil {
			return err
		}
	}
	s.printf("\nAfter %v: %d failed steps\n", time.Since(began).Round(time.Second), s.failedSteps)
	if s.failedSteps > 0 {
		return fmt.Errorf("%d failed steps", s.failedSteps)
	}
	return nil
}
