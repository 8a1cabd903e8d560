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
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// story is told to whoever reads the terminal, of one cluster.
type story struct {
	client.Client

	plan      plan
	sets      kubernetes.Interface // for what is no object: logs
	discovery discovery.DiscoveryInterface
	kubectl   string // path
	out       io.Writer

	shortfalls int   // of this chapter
	short      int   // chapters
	edited     int64 // how often
	loads      int
}

func newStory(p plan, out io.Writer) (*story, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find a cluster: %w; name one with KUBECONFIG", err)
	}
	config.QPS, config.Burst = 100, 200
	config.WarningHandler = rest.NoWarnings{} // kubectl shows what users see
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known), apiextensions.AddToScheme(known)); err != nil {
		return nil, err
	}
	s := &story{plan: p, out: out}
	if s.Client, err = client.New(config, client.Options{Scheme: known}); err != nil {
		return nil, err
	}
	sets, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	s.sets, s.discovery = sets, sets.Discovery()
	s.kubectl = os.Getenv("KUBECTL")
	if s.kubectl == "" {
		s.kubectl = "kubectl"
	}
	if s.kubectl, err = exec.LookPath(s.kubectl); err != nil {
		return nil, fmt.Errorf("find kubectl: %w; put it on the PATH or name it with KUBECTL", err)
	}
	return s, nil
}

func (s *story) printf(format string, values ...any) { fmt.Fprintf(s.out, format, values...) }

// say tells what happens, or what was measured.
func (s *story) say(format string, values ...any) { s.printf("   "+format+"\n", values...) }

// expect tells what falls short. The story goes on.
func (s *story) expect(holds bool, format string, values ...any) {
	if !holds {
		s.shortfalls++
		s.say("SHORT: "+format, values...)
	}
}

// step is a part of a chapter, or a look at whether something is as it should be; its error is what is not.
type step = func(context.Context) error

// inOrder does one step after the other, until one fails.
func inOrder(steps ...step) step {
	return func(ctx context.Context) error {
		for _, do := range steps {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// types is what a user types.
func (s *story) types(args ...string) step {
	return func(ctx context.Context) error { return s.run(ctx, args...) }
}

func (s *story) run(ctx context.Context, args ...string) error {
	_, err := s.pipe(ctx, "", args...)
	return err
}

// pipe runs kubectl, or another program, with what it reads, and returns what it printed.
func (s *story) pipe(ctx context.Context, input string, args ...string) (string, error) {
	s.say("$ %s", strings.Join(args, " "))
	return s.quietly(ctx, input, args...)
}

func (s *story) quietly(ctx context.Context, input string, args ...string) (string, error) {
	program := args[0]
	if program == "kubectl" {
		program = s.kubectl
	}
	var out, problems bytes.Buffer
	command := exec.CommandContext(ctx, program, args[1:]...) //nolint:gosec // programs that whoever tells the story names
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &problems
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// glance is how often await looks.
const glance = 50 * time.Millisecond

// await looks until there is nothing missing, which is what look's error says, and returns how long that took.
func await(ctx context.Context, limit time.Duration, look step) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	missing := errors.New("was not looked at")
	for {
		switch err := look(ctx); {
		case err == nil:
			return time.Since(began), nil
		case ctx.Err() == nil: // else it was only cut off
			missing = err
		}
		select {
		case <-ctx.Done():
			return time.Since(began), fmt.Errorf("after %v: %w", limit, missing)
		case <-tick.C:
		}
	}
}

// within awaits what should come in that time; that it does not is a shortfall, after which the story goes on.
func (s *story) within(ctx context.Context, limit time.Duration, what string, look step) {
	s.withinOf(ctx, time.Now(), limit, what, look)
}

// withinOf counts the time from a moment before.
func (s *story) withinOf(ctx context.Context, began time.Time, limit time.Duration, what string, look step) {
	_, err := await(ctx, max(limit-time.Since(began), 2*glance), look)
	if err != nil {
		s.expect(false, "%s: %v", what, err)
	} else {
		s.say("%s after %v", what, time.Since(began).Round(10*time.Millisecond))
	}
}

// rollTime is how long pods may take to come and go.
const rollTime = 2 * time.Minute

// until waits for what the next step needs.
func until(look step) step {
	return func(ctx context.Context) error {
		_, err := await(ctx, rollTime, look)
		return err
	}
}
