package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// completed returns what a shell gets for words of a command line, without the directive.
func completed(t *testing.T, words ...string) string {
	t.Helper()
	_, stdout, _ := runWithInput(t, "", append([]string{"__complete"}, words...)...)
	lines, directive, _ := strings.Cut(stdout, ":")
	if !strings.HasPrefix(directive, "4\n") {
		t.Errorf("%q: directive %q, want no completion of files", words, directive)
	}
	return lines
}

func TestCompletion_ListsPoliciesAndIdentifiersOfALimiter(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "admin.sock")
	base, _ := serveWithAdmin(t, socket, "")
	check(t, base, acme)
	for words, want := range map[string]string{
		"counters get --admin SOCKET --policy ":        "shop/tenant\n",
		"counters get --admin SOCKET --policy shop/t":  "shop/tenant\n",
		"counters get --admin SOCKET --policy bank":    "",
		"counters get --admin SOCKET ":                 "acme\n",
		"counters get --admin SOCKET acme ":            "",
		"counters reset --admin SOCKET a":              "acme\n",
		"logs --admin SOCKET --identifier a":           "acme\n",
		"explain --admin SOCKET --domain ":             "shop\n",
		"rules -o ":                                    "json\nname\ntable\nwide\nyaml\n",
		"logs --endpoint r":                            "rls\n",
		"counters get --admin unix:/nowhere ":          "",
		"counters get --admin unix:/nowhere --policy ": "",
	} {
		if got := completed(t, strings.Split(strings.ReplaceAll(words, "SOCKET", socket), " ")...); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}

func TestCompletion_ScriptsAreValid(t *testing.T) {
	for shell, want := range map[string]string{"bash": "__start_weir", "zsh": "#compdef weir", "fish": "complete -c weir"} {
		status, script, stderr := runWithInput(t, "", "completion", shell)
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
