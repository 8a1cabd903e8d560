package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/wait"
	"github.com/weir-dev/weir/test/fixture"
)

// options are what steps need to know.
type options struct {
	image, next string // images of Weir: to install, and to upgrade to
	load, redis string // images
	plugin      string // path of kubectl-weir
	rate        int    // requests per second
	keep        bool   // leave everything in the cluster
	artifacts   string // directory for statistics of loads, and diagnostics
}

// scenario runs against one cluster and reports its progress on out.
type scenario struct {
	client.Client

	options options
	sets    kubernetes.Interface // for what Client does not have, such as logs of pods
	kubectl string               // path of the program
	out     io.Writer

	failures    int      // failed checks of the current step
	pending     []func() // see meanwhile
	failedSteps int      // failed steps
	edits       int64    // edits so far, see edit
	loads       int      // loads so far, see saveStats
}

func newScenario(o options, out io.Writer) (*scenario, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find a cluster: %w; set KUBECONFIG", err)
	}
	config.QPS, config.Burst = 100, 200
	config.WarningHandler = rest.NoWarnings{} // kubectl shows the warnings that users see
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known), apiextensions.AddToScheme(known)); err != nil {
		return nil, err
	}
	s := &scenario{options: o, out: out}
	if s.Client, err = client.New(config, client.Options{Scheme: known}); err != nil {
		return nil, err
	}
	if s.sets, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	s.kubectl = os.Getenv("KUBECTL")
	if s.kubectl == "" {
		s.kubectl = "kubectl"
	}
	if s.kubectl, err = exec.LookPath(s.kubectl); err != nil {
		return nil, fmt.Errorf("find kubectl: %w; add it to PATH, or set KUBECTL to its path", err)
	}
	return s, nil
}

// writeKubeconfig writes a kubeconfig file with the token as the only credential. A client certificate would have precedence.
func writeKubeconfig(file, namespace, token string) (*rest.Config, error) {
	const user = "e2e"
	raw, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return nil, err
	}
	current, is := raw.Contexts[raw.CurrentContext]
	if !is {
		return nil, fmt.Errorf("KUBECONFIG has no context %q, its current context", raw.CurrentContext)
	}
	current.AuthInfo, current.Namespace = user, namespace
	raw.AuthInfos = map[string]*api.AuthInfo{user: {Token: token}}
	if err := clientcmd.WriteToFile(*raw, file); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{} // no client-side rate limit; the code reads the warnings of each response
	return config, nil
}

func (s *scenario) printf(format string, values ...any) { fmt.Fprintf(s.out, format, values...) }

// logf reports an event or a measurement.
func (s *scenario) logf(format string, values ...any) { s.printf("   "+format+"\n", values...) }

// expect reports a failed check unless holds. The scenario continues.
func (s *scenario) expect(holds bool, format string, values ...any) {
	if !holds {
		s.failures++
		s.logf("FAILED: "+format, values...)
	}
}

// action is a part of a step, or a check. The error of a check describes the difference from the expected state.
type action = func(context.Context) error

// sequence runs the actions one after the other, until one fails.
func sequence(actions ...action) action {
	return func(ctx context.Context) error {
		for _, do := range actions {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// command runs a command and prints it as a user would type it.
func (s *scenario) command(args ...string) action {
	return func(ctx context.Context) error { return s.run(ctx, args...) }
}

func (s *scenario) run(ctx context.Context, args ...string) error {
	_, err := s.pipe(ctx, "", args...)
	return err
}

// pipe prints and runs kubectl, or another program, with input on standard input. It returns standard output.
func (s *scenario) pipe(ctx context.Context, input string, args ...string) (string, error) {
	s.logf("$ %s", strings.Join(args, " "))
	return s.quietly(ctx, input, args...)
}

func (s *scenario) quietly(ctx context.Context, input string, args ...string) (string, error) {
	program := args[0]
	if program == "kubectl" {
		program = s.kubectl
	}
	var out, problems bytes.Buffer
	command := exec.CommandContext(ctx, program, args[1:]...) //nolint:gosec // the user who runs the test names the programs
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &problems
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// pollInterval is the pause between two checks.
const pollInterval = 50 * time.Millisecond

// await repeats check until it succeeds, and returns how long that took. After limit, its error contains the last error of check.
func await(ctx context.Context, limit time.Duration, check action) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := fixture.Poll(ctx, pollInterval, check); err != nil {
		return time.Since(began), fmt.Errorf("after %v: %w", limit, err)
	}
	return time.Since(began), nil
}

// within waits until check succeeds. If that takes longer than limit, the check has failed and the scenario continues.
func (s *scenario) within(ctx context.Context, limit time.Duration, what string, check action) {
	s.withinSince(ctx, time.Now(), limit, what, check)
}

// withinSince is within, but limit starts at began.
func (s *scenario) withinSince(ctx context.Context, began time.Time, limit time.Duration, what string, check action) {
	_, err := await(ctx, max(limit-time.Since(began), 2*pollInterval), check)
	if err != nil {
		s.expect(false, "%s: %v", what, err)
	} else {
		s.logf("%s after %v", what, time.Since(began).Round(10*time.Millisecond))
	}
}

// rolloutTime is the time limit for a rollout.
const rolloutTime = 2 * time.Minute

// waitUntil returns an action that waits until check succeeds.
func waitUntil(check action) action {
	return func(ctx context.Context) error {
		_, err := await(ctx, rolloutTime, check)
		return err
	}
}

// pause waits for d. Use it only where a state must last, not to wait for a condition.
func pause(ctx context.Context, d time.Duration) error {
	if !wait.Sleep(ctx, d) {
		return ctx.Err()
	}
	return nil
}
