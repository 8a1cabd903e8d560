package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlugin_IsALinkToTheBinary runs the test binary under the names by which kubectl finds a plugin.
func TestPlugin_IsALinkToTheBinary(t *testing.T) {
	if line := os.Getenv("WEIR_TEST_PLUGIN"); line != "" {
		os.Exit(runAs(strings.Split(line, " "), os.Stdout, os.Stderr))
	}
	for line, want := range map[string]string{
		"/usr/bin/weir counters rest":                   `weir counters: unknown command "rest"`,
		"/usr/bin/kubectl-weir counters rest":           `kubectl weir counters: unknown command "rest"`,
		"/usr/bin/kubectl_complete-weir counters res":   "reset\tGive an identifier its budget back\n:4\n",
		"/usr/bin/kubectl-weir counters reset --help":   "kubectl weir counters reset IDENTIFIER",
		"/usr/bin/kubectl-weir counters get":            "kubectl weir counters get: name one identifier",
		"/usr/bin/kubectl-weir-of-another-name version": "weir ",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlugin_IsALinkToTheBinary$")
		cmd.Env = append(os.Environ(), "WEIR_TEST_PLUGIN="+line, "KUBECONFIG="+filepath.Join(t.TempDir(), "none"))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // some of the lines are wrong
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s, want %q", line, out.String(), want)
		}
	}
}
