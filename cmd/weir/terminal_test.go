package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// hostile has what controls a terminal, changes the order of its text, and begins a line that looks like one of the program.
const hostile = "x\x1b[2J\a\u009b31m\u202egpj\u2066\x7f\r\u2028\n0 policies, 0 problems"

// expectHarmless reports characters that a terminal acts on, and a line that a value made.
func expectHarmless(t *testing.T, what, text string) {
	t.Helper()
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
		t.Errorf("%s: not printable: %q", what, text)
	}
	if strings.HasPrefix(text, "0 policies, 0 problems") || strings.Contains(text, "\n0 policies, 0 problems") {
		t.Errorf("%s: a value is a line of its own: %q", what, text)
	}
}

// A pull request can have any policy file, with any name.
func TestCommands_PrintNothingThatControlsATerminal(t *testing.T) {
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const head = "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\n"
	raw := strings.NewReplacer("\n", " ", "\r", " ").Replace(hostile)
	for name, content := range map[string]string{
		"name.yaml":       head + "metadata: {name: " + string(quoted) + ", namespace: shop}\nspec: {axis: IP, limit: 1, window: 1m}\n",
		"field.yaml":      head + "metadata: {name: b, namespace: shop}\nspec: {axis: IP, limit: 1, window: 1m, " + string(quoted) + ": 1}\n",
		"value.yaml":      head + "metadata: {name: c, namespace: shop}\nspec: {axis: " + string(quoted) + ", limit: 1, window: 1m}\n",
		"expression.yaml": head + "metadata: {name: d, namespace: shop}\nspec: {axis: Custom, limit: 1, window: 1m, identifier: {expression: " + string(quoted) + "}}\n",
		"kind.yaml":       "apiVersion: weir.dev/v1alpha1\nkind: " + string(quoted) + "\nmetadata: {name: e}\n",
		"other.yaml":      "apiVersion: v1\nkind: " + string(quoted) + "\nmetadata: {name: f}\n",
		"raw.yaml":        "a: [" + raw + "\n",
		"twice.yaml":      "? " + string(quoted) + "\n: 1\n? " + string(quoted) + "\n: 2\n",
		strings.ReplaceAll(hostile, "/", "") + ".yaml": "a: [\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(dir, hostile, "missing.yaml")
	for _, args := range [][]string{
		{"lint", dir},
		{"lint", missing},
		{hostile},
		{"lint", "--" + hostile},
		{"lint", "--log-level", hostile, dir},
		{"import", hostile},
		{"import", "kong", dir},
		{"import", "envoy-ratelimit", dir},
		{"import", "kuadrant", missing},
		{"serve", "--policies", missing},
		{"serve", "--redis", hostile, "--policies", dir},
		{"serve", "--redis-timeout", hostile},
		{"explain", "--policies", dir, "--domain", hostile, "-H", hostile},
		{"explain", "--admin", "unix:/" + hostile},
		{"hash", "--hash-key", missing},
		{"counters", "get", "--policy", hostile, "--admin", "unix:/" + hostile},
		{"explain", "--output", hostile, "--domain", "a"},
		{"logs", "--admin", "http://" + hostile},
		{"ratelimit", "--algorithm", hostile},
		{"rules", "diff", "--policies", missing, "--admin", "unix:/x"},
	} {
		status, stdout, stderr := runWithInput(t, "", args...)
		if status == 0 {
			t.Errorf("%q: status 0: %s%s", args, stdout, stderr)
		}
		expectHarmless(t, strings.Join(args[:1], " ")+" stdout", stdout)
		expectHarmless(t, strings.Join(args[:1], " ")+" stderr", stderr)
	}
}

// A limiter that was taken over answers anything.
func TestAskCommands_PrintNothingThatControlsATerminal(t *testing.T) {
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	policy := `{"policy":X,"axis":X,"outcome":X,"reason":X,"field":X,"charge":{"identifier":X,"from":X,"tier":X,"cost":1,"algorithm":X,"limit":1,"window":X,"key":X,"source":X}}`
	counter := `{"policy":X,"identifier":X,"endpoint":X,"key":X,"tier":X,"limit":1,"window":X,"algorithm":X}`
	list := `{"identifiers":[{"policy":X,"identifier":X,"requests":1}]}`
	answers := map[string]string{
		"/admin/v1/explain":  `{"revision":X,"answer":{"allowed":false,"policy":X,"identifier":X,"retryAfterMs":1,"source":X},"policies":[` + policy + `]}`,
		"/admin/v1/counters": `{"counters":[` + counter + `],"continue":X,"source":X,"unsearched":[{"policies":[X],"reason":X}],"hidden":[X]}`,
		"/admin/v1/top":      `{"seconds":1,"denied":` + list + `,"allowed":` + list + `,"policies":[{"policy":X}],"sources":[{"source":X,"decisions":1}],"endpoints":[{"endpoint":X,"decisions":1}]}`,
		"/admin/v1/denials":  `{"denial":{"policy":X,"identifier":X,"method":X,"path":X,"endpoint":X,"source":X,"denied":[X]}}` + "\n" + `{"error":X}` + "\n",
		"/admin/v1/bypasses": `{"bypasses":[{"name":X,"policy":X,"identifier":X,"reason":X,"createdBy":X,"endedBy":X,"expiresAt":"2030-01-01T00:00:00Z"}]}`,
		"/admin/v1/rules":    `{"revision":X,"rules":[{"policy":X,"domain":X,"axis":X,"identifier":{"from":X,"name":X},"match":{"hosts":[X]},"algorithm":X,"units":1,"windowSeconds":1}]}`,
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, found := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !found || r.URL.Query().Get("policy") == "error" {
			w.WriteHeader(http.StatusTeapot)
			text = `{"type":"about:blank","title":X,"detail":X,"field":X}`
		}
		_, _ = w.Write([]byte(strings.ReplaceAll(text, "X", string(quoted))))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	shown := 0
	for _, args := range []string{
		"explain --domain shop", "explain --domain shop -o wide", "explain --domain shop -o json", "explain --domain shop -o yaml",
		"counters list", "counters list -o wide", "counters list -o yaml", "counters list -o name", "counters list --policy error", "counters get --policy shop/a --identifier x",
		"top --once", "top -o name", "top -o json", "top -o yaml", "top --policy error", "logs", "logs -o json", "bypass list", "bypass list -o yaml", "rules", "rules -o wide",
		"rules -o json", "rules -o yaml", "bypass create --policy shop/a --identifier x --for 1m --reason y",
	} {
		_, stdout, stderr := runWithInput(t, "", append(strings.Fields(args), "--admin", "unix:"+path)...)
		if strings.Contains(stdout, `\u202e`) || strings.Contains(stdout, `\U`) {
			shown++
		}
		expectHarmless(t, args+" stdout", stdout)
		expectHarmless(t, args+" stderr", stderr)
		if strings.HasSuffix(args, "json") && !strings.HasPrefix(args, "logs") && !json.Valid([]byte(stdout)) {
			t.Errorf("%s: no JSON: %s", args, stdout)
		}
	}
	if shown < 15 {
		t.Errorf("only %d commands show what the limiter answers", shown)
	}
}
