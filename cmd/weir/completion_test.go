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
		"counters get --admin SOCKET --policy ":         "shop/tenant\n",
		"counters get --admin SOCKET --policy shop/t":   "shop/tenant\n",
		"counters get --admin SOCKET --policy bank":     "",
		"counters get --admin SOCKET ":                  "acme\n",
		"counters get --admin SOCKET acme ":             "",
		"counters reset --admin SOCKET a":               "acme\n",
		"logs --admin SOCKET --identifier a":            "acme\n",
		"explain --admin SOCKET --domain ":              "shop\n",
		"rules -o ":                                     "json\nname\ntable\nwide\nyaml\n",
		"logs --endpoint r":                             "rls\n",
		"counters get --admin unix:/nowhere ":           "",
		"counters get --admin unix:/nowhere --policy ":  "",
		"counters list --kubeconfig /nowhere --policy ": "",
		"rules --kubeconfig /nowhere --limiter ":        "",
		"status --kubeconfig /nowhere --namespace ":     "",
	} {
		if got := completed(t, strings.Split(strings.ReplaceAll(words, "SOCKET", socket), " ")...); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}

// A hash of a secret without "hash:" would be hashed again, but denials have it. A name that a terminal must not get cannot be completed.
func TestCompletion_MarksHashesAndLeavesOutControlCharacters(t *testing.T) {
	f := fakeOperator(t, `{"limiter":"a/b","replicas":[{"pod":"x","status":200,"body":{
		"denied":{"identifiers":[{"identifier":"5f3a","hashed":true},{"identifier":"b\u001b[2J"},{"identifier":"acme"}]},
		"allowed":{"identifiers":[{"identifier":"acme"},{"identifier":"zeta"}]}}}]}`)
	cmd := countersGetCommand()
	cmd.SetContext(t.Context())
	got, _ := completion(f.identifiers)(cmd, nil, "")
	logged, _ := completion(f.loggedIdentifiers)(cmd, nil, "")
	if strings.Join(got, " ") != "acme hash:5f3a zeta" || strings.Join(logged, " ") != "5f3a acme zeta" {
		t.Errorf("%q, of denials %q", got, logged)
	}
}

// Shells insert the common beginning of several completions as it is, and execute it as a part of the line. Clients choose identifiers.
func TestCompletion_LeavesOutWhatAShellExecutes(t *testing.T) {
	f := fakeOperator(t, `{"limiter":"a/b","replicas":[{"pod":"x","status":200,"body":{
		"denied":{"identifiers":[{"identifier":"acme$(id)a"},{"identifier":"acme$(id)b"},{"identifier":"acme`+"`id`"+`a"},{"identifier":"acme;reboot"}]},
		"allowed":{"identifiers":[{"identifier":"acme b"},{"identifier":"acme'"},{"identifier":"acme*"},{"identifier":"-acme"},{"identifier":"acmé"},
			{"identifier":"~acme"},{"identifier":"acme/A-1_x.y:z@q=0+,"}]}}}]}`)
	cmd := countersGetCommand()
	cmd.SetContext(t.Context())
	got, _ := completion(f.identifiers)(cmd, nil, "")
	if strings.Join(got, " ") != "acme/A-1_x.y:z@q=0+," {
		t.Errorf("%q, want only the identifier that a shell takes as it is", got)
	}
}

func TestCompletion_ListsTheContextsOfTheKubeconfig(t *testing.T) {
	f := fakeOperator(t, "")
	if got := completed(t, "status", "--kubeconfig", f.cluster.kubeconfig, "--context", ""); got != "a\n" {
		t.Errorf("%q, want the context a", got)
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
