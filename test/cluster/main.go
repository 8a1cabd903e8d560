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

	"github.com/weir-dev/weir/hack/command"
)

// flags are the flags of the command.
type flags struct {
	options

	steps  string // regular expression
	resume bool
}

func main() {
	var f flags
	// Not flag.CommandLine, on which controller-runtime defines the flag -kubeconfig.
	set := flag.NewFlagSet("cluster", flag.ExitOnError)
	set.StringVar(&f.image, "image", "weir:e2e", "image of Weir to install")
	set.StringVar(&f.next, "next", "weir:e2e-next", "image of Weir to upgrade to; its content may be the same")
	set.StringVar(&f.load, "load", "weir-load:e2e", "image of test/cluster/load")
	set.StringVar(&f.redis, "redis", "redis:7", "image of Redis")
	set.StringVar(&f.plugin, "plugin", "bin/e2e/kubectl-weir", "path of the program kubectl-weir")
	set.StringVar(&f.steps, "steps", "", "regular expression of the steps to run (default: all)")
	set.IntVar(&f.rate, "rate", 1000, "requests per second of the load")
	set.BoolVar(&f.keep, "keep", os.Getenv("KEEP") != "", "leave everything in the cluster at the end; also KEEP=1")
	set.BoolVar(&f.resume, "resume", false, "continue on what -keep has left, for -steps that need earlier steps")
	set.StringVar(&f.artifacts, "artifacts", "dist/e2e", "directory for logs, events and objects of a failed step")
	_ = set.Parse(os.Args[1:]) // ExitOnError: it does not return an error
	command.Main("e2e: FAILED", func(ctx context.Context) error { return run(ctx, f) })
}

// steps returns the steps in the order in which they run. Most of them need the objects of earlier steps.
func steps(s *scenario) []step {
	i, c, d := installSteps{s}, commandSteps{s}, disruptionSteps{s}
	return []step{
		{name: "installed by manifest", do: i.installByManifest},
		{name: "a Limiter and its policies", do: i.enforce},
		{name: "the commands reach the limiters", do: c.ask},
		{name: "the commands answer on bad days", do: c.answerBadDays},
		{name: "rollouts and deleted pods under load", do: d.disruptUnderLoad},
		{name: "Redis fails under load", do: d.failRedis},
		{name: "misconfigurations are reported, and repaired", do: misconfiguredSteps{s}.testMisconfigurations},
		{name: "certificates are renewed", do: d.renewCertificates},
		{name: "CRDs are upgraded", do: i.upgradeCRDs},
		{name: "a Limiter is deleted whose Redis is unreachable", do: i.deleteWithoutRedis},
		{name: "the Kubernetes API is throttled", do: throttleSteps{s}.throttleKubernetes},
		{name: "a Limiter is deleted", do: i.deleteLimiter},
		{name: "uninstalled", do: i.uninstall},
		{name: "deleted in every order", do: i.deleteInEveryOrder},
		{name: "installed by chart", do: i.installByChart},
	}
}

func run(ctx context.Context, f flags) (err error) {
	chosen, err := regexp.Compile(f.steps)
	if err != nil {
		return fmt.Errorf("-steps %q: %w", f.steps, err)
	}
	s, err := newScenario(f.options, os.Stdout)
	if err != nil {
		return err
	}
	all := steps(s)
	if !slices.ContainsFunc(all, func(s step) bool { return chosen.MatchString(s.name) }) {
		return fmt.Errorf("-steps %q matches no step, for example %q; write . for a space, because hack/e2e.sh splits E2E at spaces", f.steps, all[0].name)
	}
	i := installSteps{s}
	if !f.resume {
		if err := i.checkNoWeir(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if f.keep {
			return
		}
		// Also after an interrupt.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		err = errors.Join(err, i.cleanUp(ctx))
	}()
	return s.runSteps(ctx, all, chosen)
}
