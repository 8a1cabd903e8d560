// Command cluster tests Weir end to end on a real cluster: installed by manifest and by chart, under load during rollouts, outages of
// Redis and certificate rotations, with misconfigurations that are reported and repaired, upgraded, and uninstalled without leftovers.
// The scenario has several steps, by subject in the packages below. make e2e runs all of them.
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
	"github.com/weir-dev/weir/test/cluster/commands"
	"github.com/weir-dev/weir/test/cluster/disruptions"
	"github.com/weir-dev/weir/test/cluster/install"
	"github.com/weir-dev/weir/test/cluster/misconfigured"
	"github.com/weir-dev/weir/test/cluster/scenario"
	"github.com/weir-dev/weir/test/cluster/throttle"
)

// flags are the flags of the command.
type flags struct {
	scenario.Options

	steps  string // regular expression
	resume bool
}

func main() {
	var f flags
	// Not flag.CommandLine, on which controller-runtime defines the flag -kubeconfig.
	set := flag.NewFlagSet("cluster", flag.ExitOnError)
	set.StringVar(&f.Image, "image", "weir:e2e", "image of Weir to install")
	set.StringVar(&f.Next, "next", "weir:e2e-next", "image of Weir to upgrade to; its content may be the same")
	set.StringVar(&f.Load, "load", "weir-load:e2e", "image of test/cluster/load")
	set.StringVar(&f.Redis, "redis", "redis:7", "image of Redis")
	set.StringVar(&f.Plugin, "plugin", "bin/e2e/kubectl-weir", "path of the program kubectl-weir")
	set.StringVar(&f.steps, "steps", "", "regular expression of the steps to run (default: all)")
	set.IntVar(&f.Rate, "rate", 1000, "requests per second of the load")
	set.BoolVar(&f.Keep, "keep", os.Getenv("KEEP") != "", "leave everything in the cluster at the end; also KEEP=1")
	set.BoolVar(&f.resume, "resume", false, "continue on what -keep has left, for -steps that need earlier steps")
	set.StringVar(&f.Artifacts, "artifacts", "dist/e2e", "directory for logs, events and objects of a failed step")
	_ = set.Parse(os.Args[1:]) // ExitOnError: it does not return an error
	command.Main("e2e: FAILED", func(ctx context.Context) error { return run(ctx, f) })
}

// steps returns the steps in the order in which they run. Most of them need the objects of earlier steps.
func steps(s *scenario.Scenario) []scenario.Step {
	installs, users, disrupts := install.Steps{Scenario: s}, commands.Steps{Scenario: s}, disruptions.Steps{Scenario: s}
	return []scenario.Step{
		{Name: "installed by manifest", Do: installs.InstallByManifest},
		{Name: "a Limiter and its policies", Do: installs.Enforce},
		{Name: "the commands reach the limiters", Do: users.ReachLimiters},
		{Name: "programs and limiters agree", Do: users.AgreeWithPrograms},
		{Name: "the commands answer on bad days", Do: users.AnswerBadDays},
		{Name: "rollouts and deleted pods under load", Do: disrupts.DisruptUnderLoad},
		{Name: "Redis fails under load", Do: disrupts.FailRedis},
		{Name: "misconfigurations are reported, and repaired", Do: misconfigured.Steps{Scenario: s}.ReportAndRepair},
		{Name: "certificates are renewed", Do: disrupts.RenewCertificates},
		{Name: "CRDs are upgraded", Do: installs.UpgradeCRDs},
		{Name: "a Limiter is deleted whose Redis is unreachable", Do: installs.DeleteWithoutRedis},
		{Name: "the Kubernetes API is throttled", Do: throttle.Steps{Scenario: s}.ThrottleKubernetes},
		{Name: "a Limiter is deleted", Do: installs.DeleteLimiter},
		{Name: "uninstalled", Do: installs.Uninstall},
		{Name: "deleted in every order", Do: installs.DeleteInEveryOrder},
		{Name: "installed by chart", Do: installs.InstallByChart},
	}
}

func run(ctx context.Context, f flags) (err error) {
	chosen, err := regexp.Compile(f.steps)
	if err != nil {
		return fmt.Errorf("-steps %q: %w", f.steps, err)
	}
	s, err := scenario.New(f.Options, os.Stdout)
	if err != nil {
		return err
	}
	all := steps(s)
	if !slices.ContainsFunc(all, func(s scenario.Step) bool { return chosen.MatchString(s.Name) }) {
		return fmt.Errorf("-steps %q matches no step, for example %q; write . for a space, because hack/e2e.sh splits E2E at spaces", f.steps, all[0].Name)
	}
	i := install.Steps{Scenario: s}
	if !f.resume {
		if err := i.CheckNoWeir(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if f.Keep {
			return
		}
		// Also after an interrupt.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scenario.CleanupTime)
		defer cancel()
		err = errors.Join(err, i.CleanUp(ctx))
	}()
	return s.RunSteps(ctx, all, chosen)
}
