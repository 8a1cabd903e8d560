package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
)

// kubectl runs the program under its own name, and under that of the completion.
func TestPlugin_CompletesUnderItsSecondName(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/kubectl-weir counters rest":                   `kubectl weir counters: unknown command "rest"`,
		"/usr/bin/kubectl_complete-weir counters res":           "reset\tGive an identifier its budget back\n:4\n",
		"/usr/bin/kubectl-weir counters reset --help":           "kubectl weir counters reset IDENTIFIER",
		"/usr/bin/kubectl-weir counters get":                    "kubectl weir counters get: name one identifier",
		"/usr/bin/kubectl-weir-of-another-name version":         "kubectl-weir ",
		"/usr/bin/kubectl-weir counters reset a --also unix:/x": "kubectl weir counters reset: unknown flag --also",
	} {
		_, stdout, stderr := clitest.Run(rootCommand(), "", arguments(strings.Split(line, " "))...)
		if !slices.ContainsFunc([]string{stdout, stderr}, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("%s: %s%s, want %q", line, stdout, stderr, want)
		}
	}
}
