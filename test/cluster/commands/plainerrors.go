package commands

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// commandsFailPlainly makes commands fail: with another kubeconfig, without permissions, for an unknown policy, and during a rollout.
func (b *badDays) commandsFailPlainly(ctx context.Context) error {
	b.Logf("Commands fail, and state why")
	dir, err := os.MkdirTemp("", "weir-e2e-")
	if err != nil {
		return fmt.Errorf("create a directory for kubeconfigs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	b.show(ctx, false, []string{"kubeconfig", "missing.yaml"}, "rules", "--kubeconfig", filepath.Join(dir, "missing.yaml"))
	wrong := filepath.Join(dir, "wrong.yaml")
	unreachable := api.NewConfig()
	unreachable.Clusters["e2e"] = &api.Cluster{Server: "https://127.0.0.1:1"}
	unreachable.Contexts["e2e"], unreachable.CurrentContext = &api.Context{Cluster: "e2e"}, "e2e"
	if err := clientcmd.WriteToFile(*unreachable, wrong); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	b.show(ctx, false, []string{"127.0.0.1:1", "connection refused"}, "rules", "--kubeconfig", wrong)
	b.show(ctx, false, []string{"is not enforced by this limiter"}, "counters", "get", customer, "--policy", scenario.Support+"/none")
	b.show(ctx, false, []string{"is not enforced by this limiter"}, "bypass", scenario.Support+"/none", "--identifier", customer, "--reason", "x")
	b.show(ctx, false, []string{"Limiter " + scenario.System + "/none does not exist"}, "rules", "--limiter", scenario.System+"/none")
	b.show(ctx, false, []string{"there is no bypass"}, "bypass", "end", "bypass-none")
	if err := b.strangerIsRejected(ctx, filepath.Join(dir, "stranger.yaml")); err != nil {
		return err
	}
	return b.limiterIsRolling(ctx)
}

// strangerIsRejected uses a token without permissions, and then one that can only connect.
func (b *badDays) strangerIsRejected(ctx context.Context, file string) error {
	if err := b.Run(ctx, "kubectl", "-n", scenario.Support, "create", "serviceaccount", "stranger"); err != nil {
		return err
	}
	token, err := b.Quietly(ctx, "", "kubectl", "-n", scenario.Support, "create", "token", "stranger")
	if err != nil {
		return err
	}
	if _, err := scenario.WriteKubeconfig(file, scenario.Support, strings.TrimSpace(token)); err != nil {
		return err
	}
	reset := []string{"counters", "reset", customer, "--policy", scenario.Support + "/" + dailyPolicy, "--reason", "x", "--kubeconfig", file}
	b.show(ctx, false, []string{"bind the Role weir-admin-access in namespace " + scenario.System}, reset...)
	err = b.Run(ctx, "kubectl", "-n", scenario.System, "create", "rolebinding", "e2e-stranger", "--role=weir-admin-access",
		"--serviceaccount="+scenario.Support+":stranger")
	if err != nil {
		return err
	}
	b.show(ctx, false, []string{"cannot create limiters/resets in namespace " + scenario.System + ": bind the ClusterRole weir-responder"}, reset...)
	return b.Run(ctx, "kubectl", "-n", scenario.System, "delete", "rolebinding", "e2e-stranger")
}

// limiterIsRolling repeats a command during a rollout. Each either answers, or names the replicas that do not.
func (b *badDays) limiterIsRolling(ctx context.Context) error {
	b.disconnect()
	if err := b.Run(ctx, "kubectl", "-n", scenario.System, "delete", "pod", "-l", defaultPods, "--wait=false"); err != nil {
		return err
	}
	printed := map[string]bool{}
	err := scenario.WaitUntil(func(ctx context.Context) error {
		const withNotes = `exec "$0" "$@" 2>&1`
		text, err := b.Quietly(ctx, "", "sh", "-c", withNotes, b.Options.Plugin, "counters", "get", customer, "--policy", scenario.Support+"/"+dailyPolicy)
		for line := range strings.Lines(text) {
			printed[withoutNames(line)] = true
		}
		if err != nil {
			return err
		}
		return b.RolledOut(scenario.System, scenario.LimiterPods)(ctx)
	})(ctx)
	for _, line := range slices.Sorted(maps.Keys(printed)) {
		b.Logf("  %s", line)
	}
	return err
}

// withoutNames replaces the last part of the names of pods, so that equal messages about different pods are reported once.
func withoutNames(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		if strings.HasPrefix(word, "weir-limiter-default-") {
			words[i] = "weir-limiter-default-…"
		}
	}
	return strings.Join(words, " ")
}
