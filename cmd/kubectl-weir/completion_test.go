package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
)

// completed returns what a shell gets for words of a command line, without the directive.
func completed(t *testing.T, words ...string) string {
	t.Helper()
	_, stdout, _ := clitest.Run(rootCommand(), "", append([]string{"__complete"}, words...)...)
	lines, directive, _ := strings.Cut(stdout, ":")
	if !strings.HasPrefix(directive, "4\n") {
		t.Errorf("%q: directive %q, want no completion of files", words, directive)
	}
	return lines
}

func TestCompletion_ListsTheContextsOfTheKubeconfig(t *testing.T) {
	f := fakeOperator(t, "")
	if got := completed(t, "status", "--kubeconfig", f.kubeconfig, "--context", ""); got != "a\n" {
		t.Errorf("%q, want the context a", got)
	}
}

func TestCompletion_OfAClusterThatCannotBeReachedIsEmpty(t *testing.T) {
	for _, words := range []string{
		"counters list --kubeconfig /nowhere --policy ", "rules --kubeconfig /nowhere --limiter ", "status --kubeconfig /nowhere --namespace ",
	} {
		if got := completed(t, strings.Split(words, " ")...); got != "" {
			t.Errorf("%s: %q, want nothing", words, got)
		}
	}
}

func TestCompletion_ScriptsAreValid(t *testing.T) {
	for shell, want := range map[string]string{"bash": "__start_kubectl-weir", "zsh": "#compdef kubectl-weir", "fish": "complete -c kubectl-weir"} {
		status, script, stderr := clitest.Run(rootCommand(), "", "completion", shell)
		if status != 0 || !strings.Contains(script, want) {
			t.Errorf("%s: status %d, %s", shell, status, stderr)
		}
		if shell != "bash" {
			continue
		}
		parse := exec.CommandContext(t.Context(), "bash", "-n")
		parse.Stdin = strings.NewReader(script)
		var out bytes.Buffer
		parse.Stderr = &out
		if err := parse.Run(); err != nil {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}
