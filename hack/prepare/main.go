// Command prepare gets what the tests and the demo run on, as far as the machine lacks it: kube-apiserver, etcd and
// kubectl; kube-controller-manager; redis-server; the proxies nginx, haproxy and caddy; what manifests are checked with,
// kustomize, helm, kube-score and promtool; a C compiler (cc) for the race detector. Arguments choose among them; without
// any it gets all.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/manifests/tool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := prepare(ctx, os.Stderr, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

// A need is something that may have to be got, and how.
type need struct {
	name     string
	optional bool // the tests run without it, and say so
	get      func(ctx context.Context, progress io.Writer) (path string, err error)
}

func needs() []need {
	return []need{
		{name: "kube", get: fixture.KubeAssets},
		{name: "kube-controller-manager", get: fixture.ControllerManagerBinary},
		{name: "redis", get: func(ctx context.Context, _ io.Writer) (string, error) { return fixture.RedisServer(ctx) }},
		{name: "nginx", get: debian("nginx")},
		{name: "haproxy", get: debian("haproxy")},
		{name: "caddy", get: debian("caddy")},
		{name: "kustomize", get: pinned("kustomize")},
		{name: "helm", get: pinned("helm")},
		{name: "kube-score", get: pinned("kube-score")},
		{name: "promtool", get: func(ctx context.Context, _ io.Writer) (string, error) { return tool.Path(ctx, "promtool") }},
		{name: "cc", optional: true, get: func(ctx context.Context, _ io.Writer) (string, error) {
			return fixture.Program(ctx, "gcc", "gcc", "libc6-dev")
		}},
	}
}

// debian gets a program from the Debian package of its name.
func debian(name string) func(context.Context, io.Writer) (string, error) {
	return func(ctx context.Context, _ io.Writer) (string, error) { return fixture.Program(ctx, name, name) }
}

// pinned builds a program that manifests are checked with.
func pinned(name string) func(context.Context, io.Writer) (string, error) {
	return func(ctx context.Context, progress io.Writer) (string, error) {
		fmt.Fprintf(progress, "%-10s  is built if it is not in the cache of the go command, which takes minutes\n", name)
		return tool.Path(ctx, name)
	}
}

func names(all []need) []string {
	known := make([]string, len(all))
	for i, n := range all {
		known[i] = n.name
	}
	return known
}

func prepare(ctx context.Context, progress io.Writer, chosen []string) error {
	all := needs()
	for _, name := range chosen {
		if !slices.ContainsFunc(all, func(n need) bool { return n.name == name }) {
			return fmt.Errorf("unknown argument %q, known are %s", name, strings.Join(names(all), ", "))
		}
	}
	for _, n := range all {
		if len(chosen) > 0 && !slices.Contains(chosen, n.name) {
			continue
		}
		path, err := n.get(ctx, progress)
		if err != nil && !n.optional {
			return err
		}
		if err != nil {
			fmt.Fprintf(progress, "%-10s  none: %v\n", n.name, err)
			continue
		}
		fmt.Fprintf(progress, "%-10s  %s\n", n.name, path)
	}
	return nil
}
