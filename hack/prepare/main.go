// Command prepare installs or builds the programs that the tests and the demo need and that are missing on this machine:
//
//   - cc: a C compiler, for the race detector
//   - kube: kube-apiserver, etcd and kubectl
//   - kube-controller-manager
//   - redis: redis-server
//   - nginx, haproxy, caddy
//   - kustomize, helm, kube-score, promtool: to check manifests
//
// Arguments select programs. The default is all of them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/hack/command"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/test/manifests/tool"
)

// The names of programs that [announce] describes.
const (
	kube        = "kube"
	controllers = "kube-controller-manager"
)

func main() {
	command.Main("prepare", func(ctx context.Context) error { return prepare(ctx, os.Stderr, os.Args[1:]) })
}

// A program can be missing, and get installs or builds it.
type program struct {
	name     string
	optional bool // the tests report that it is missing and run without it
	get      func(ctx context.Context, progress io.Writer) (path string, err error)
}

// programs returns the program that the others need, and lists of programs. The programs of a list are built or installed in turn, because
// they compile the same packages, or wait for the same lock.
func programs() (first program, lists [][]program) {
	// The go command uses cgo if there is a C compiler. A later one would make it build the programs below again.
	first = program{name: "cc", optional: true, get: func(ctx context.Context, _ io.Writer) (string, error) {
		return fixture.Program(ctx, "gcc", "gcc", "libc6-dev")
	}}
	return first, [][]program{
		{
			{name: kube, get: kubetest.KubeAssets},
			{name: controllers, get: kubetest.ControllerManagerBinary},
		},
		{
			{name: "redis", get: func(ctx context.Context, _ io.Writer) (string, error) { return fixture.RedisServer(ctx) }},
			{name: "nginx", get: debian("nginx")},
			{name: "haproxy", get: debian("haproxy")},
			{name: "caddy", get: debian("caddy")},
			{name: "promtool", get: func(ctx context.Context, _ io.Writer) (string, error) { return tool.Path(ctx, "promtool") }},
		},
		{
			{name: "kustomize", get: pinned("kustomize")},
			{name: "helm", get: pinned("helm")},
			{name: "kube-score", get: pinned("kube-score")},
		},
	}
}

// debian installs the Debian package with the name of the program.
func debian(name string) func(context.Context, io.Writer) (string, error) {
	return func(ctx context.Context, _ io.Writer) (string, error) { return fixture.Program(ctx, name, name) }
}

// pinned builds a program at the version that a module in hack pins.
func pinned(name string) func(context.Context, io.Writer) (string, error) {
	return func(ctx context.Context, progress io.Writer) (string, error) {
		fmt.Fprintf(progress, "%-10s  building, unless it is in the cache of the go command; this takes minutes\n", name)
		return tool.Path(ctx, name)
	}
}

func names(all []program) []string {
	list := make([]string, len(all))
	for i, n := range all {
		list[i] = n.name
	}
	return list
}

// prepare makes the chosen programs available, those of each list of [programs] at the same time: a link or a download leaves cores idle.
// progress must be safe for concurrent use.
func prepare(ctx context.Context, progress io.Writer, chosen []string) error {
	first, lists := programs()
	all := append([]program{first}, slices.Concat(lists...)...)
	for _, name := range chosen {
		if !slices.ContainsFunc(all, func(n program) bool { return n.name == name }) {
			return fmt.Errorf("unknown program %q: must be one of %s", name, strings.Join(names(all), ", "))
		}
	}
	if err := announce(progress, chosen); err != nil {
		return err
	}
	if err := get(ctx, progress, []program{first}, chosen); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, list := range lists {
		group.Go(func() error { return get(ctx, progress, list, chosen) })
	}
	return group.Wait()
}

// announce prints how long the slowest builds take, before any work.
func announce(progress io.Writer, chosen []string) error {
	is := func(name string) bool { return len(chosen) == 0 || slices.Contains(chosen, name) }
	if !is(kube) && !is(controllers) {
		return nil
	}
	estimate, err := kubetest.BuildEstimate(is(kube), is(controllers))
	if err != nil {
		return err
	}
	if estimate != "" {
		fmt.Fprintf(progress, "%-10s  %s, once, unless a download is possible\n", kube, estimate)
	}
	return nil
}

// get makes the chosen programs of a list available, in turn.
func get(ctx context.Context, progress io.Writer, list []program, chosen []string) error {
	for _, n := range list {
		if len(chosen) > 0 && !slices.Contains(chosen, n.name) {
			continue
		}
		path, err := n.get(ctx, progress)
		if err != nil && !n.optional {
			return err
		}
		if err != nil {
			fmt.Fprintf(progress, "%-10s  not installed: %v\n", n.name, err)
			continue
		}
		fmt.Fprintf(progress, "%-10s  %s\n", n.name, path)
	}
	return nil
}
