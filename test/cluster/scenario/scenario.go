// Package scenario has what all steps of the end-to-end test on a cluster need: objects, conditions and checks with time limits, a load whose
// every request counts, and Weir itself. The steps are in the other packages below test/cluster, which lists them.
package scenario

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

// Options are what steps need to know.
type Options struct {
	Image, Next string // images of Weir: to install, and to upgrade to
	Load, Redis string // images
	Plugin      string // path of kubectl-weir
	Rate        int    // requests per second
	Keep        bool   // leave everything in the cluster
	Artifacts   string // directory for statistics of loads, and diagnostics
}

// Scenario runs against one cluster and reports its progress on out.
type Scenario struct {
	client.Client

	Options Options
	Sets    kubernetes.Interface // for what Client does not have, such as logs of pods
	kubectl string               // path of the program
	out     io.Writer

	failures    int      // failed checks of the current step
	pending     []func() // see Meanwhile
	failedSteps int      // failed steps
	edits       int64    // edits so far, see edit
	loads       int      // loads so far, see saveStats
}

// New returns a scenario on the cluster of KUBECONFIG.
func New(o Options, out io.Writer) (*Scenario, error) {
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
	s := &Scenario{Options: o, out: out}
	if s.Client, err = client.New(config, client.Options{Scheme: known}); err != nil {
		return nil, err
	}
	if s.Sets, err = kubernetes.NewForConfig(config); err != nil {
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

// WriteKubeconfig writes a kubeconfig file with the token as the only credential. A client certificate would have precedence.
func WriteKubeconfig(file, namespace, token string) (*rest.Config, error) {
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

func (s *Scenario) printf(format string, values ...any) { fmt.Fprintf(s.out, format, values...) }

// Logf reports an event or a measurement.
func (s *Scenario) Logf(format string, values ...any) { s.printf("   "+format+"\n", values...) }

// Expect reports a failed check unless holds. The scenario continues.
func (s *Scenario) Expect(holds bool, format string, values ...any) {
	if !holds {
		s.failures++
		s.Logf("FAILED: "+format, values...)
	}
}

// Action is a part of a step, or a check. The error of a check describes the difference from the expected state.
type Action = func(context.Context) error

// Sequence runs the actions one after the other, until one fails.
func Sequence(actions ...Action) Action {
	return func(ctx context.Context) error {
		for _, do := range actions {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// Command returns Run with these arguments.
func (s *Scenario) Command(args ...string) Action {
	return func(ctx context.Context) error { return s.Run(ctx, args...) }
}

// Run runs a command and prints it as a user would type it.
func (s *Scenario) Run(ctx context.Context, args ...string) error {
	_, err := s.Pipe(ctx, "", args...)
	return err
}

// Pipe prints and runs kubectl, or another program, with input on standard input. It returns standard output.
func (s *Scenario) Pipe(ctx context.Context, input string, args ...string) (string, error) {
	s.Logf("$ %s", strings.Join(args, " "))
	return s.Quietly(ctx, input, args...)
}

// Quietly is Pipe, but does not print the command.
func (s *Scenario) Quietly(ctx context.Context, input string, args ...string) (string, error) {
	program := args[0]
	if program == "kubectl" {
		program = s.kubectl
	}
	var out, problems bytes.Buffer
	command := exec.CommandContext(ctx, program, args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &problems
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// PollInterval is the pause between two checks.
const PollInterval = 50 * time.Millisecond

// Await repeats check until it succeeds, and returns how long that took. After limit, its error contains the last error of check.
func Await(ctx context.Context, limit time.Duration, check Action) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := fixture.Poll(ctx, PollInterval, check); err != nil {
		return time.Since(began), fmt.Errorf("after %v: %w", limit, err)
	}
	return time.Since(began), nil
}

// Within waits until check succeeds. If that takes longer than limit, the check has failed and the scenario continues.
func (s *Scenario) Within(ctx context.Context, limit time.Duration, what string, check Action) {
	s.WithinSince(ctx, time.Now(), limit, what, check)
}

// WithinSince is Within, but limit starts at began.
func (s *Scenario) WithinSince(ctx context.Context, began time.Time, limit time.Duration, what string, check Action) {
	_, err := Await(ctx, max(limit-time.Since(began), 2*PollInterval), check)
	if err != nil {
		s.Expect(false, "%s: %v", what, err)
	} else {
		s.Logf("%s after %v", what, time.Since(began).Round(10*time.Millisecond))
	}
}

// RolloutTime is the time limit for a rollout.
const RolloutTime = 2 * time.Minute

// WaitUntil returns an action that waits until check succeeds.
func WaitUntil(check Action) Action {
	return func(ctx context.Context) error {
		_, err := Await(ctx, RolloutTime, check)
		return err
	}
}

// Pause waits for d. Use it only where a state must last, not to wait for a condition.
func Pause(ctx context.Context, d time.Duration) error {
	if !wait.Sleep(ctx, d) {
		return ctx.Err()
	}
	return nil
}
