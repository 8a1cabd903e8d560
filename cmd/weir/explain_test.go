package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
	"github.com/weir-dev/weir/limiter/admin"
)

const explainedPolicies = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tenant, namespace: shop}
spec: {axis: Tenant, limit: 2, window: 1m, match: {http: {methods: [GET]}}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: key, namespace: shop}
spec: {axis: APIKey, limit: 10, window: 1m}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: broken, namespace: shop}
spec: {axis: IP, limit: -1, window: 1m}
---
apiVersion: weir.dev/v1alpha1
kind: ClusterRateLimitPolicy
metadata: {name: pods}
spec:
  axis: User
  limit: 1
  window: 1m
  cost: {expression: "request.name == 'a' ? 2 : 1"}
  match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods], operations: [CREATE]}]}}
`

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\n"

func TestExplain_AnswersWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"policies.yaml": explainedPolicies, "key": strings.Repeat("k", 32), "pod.yaml": pod,
		"request.json": `{"domain":"shop","method":"GET","path":"/","headers":{"x-tenant-id":"acme"}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args   string
		stdin  string
		status int
		stdout []string // parts
		stderr string   // part
	}{
		"flags": {
			args: "--domain shop --method GET --path / -H x-tenant-id:acme", stdout: []string{"Allowed. shop/tenant has the fewest units left in relation to its limit.", "acme"},
			stderr: "left out: policies.yaml:14: shop/broken: spec.limit",
		},
		"a file and a flag that replaces a part": {
			args: "request.json --method PUT", stdout: []string{`method is "PUT"; the policy matches GET`},
		},
		"curl from standard input": {
			args: "--domain shop -o wide -", stdin: "curl https://a.example/ -H 'X-Tenant-Id: acme'", stdout: []string{"header x-tenant-id", "weir:throttle:tenant:{acme}:shop/tenant:"},
		},
		"a request that costs too much is 3": {
			args: "request.json --cost 3", status: 3, stdout: []string{"Denied by shop/tenant. No retry can succeed"},
		},
		"a write": {
			args: "-f pod.yaml --as alice", status: 3, stdout: []string{"Denied by _cluster/pods", "alice"},
		},
		"an exempt user":       {args: "-f pod.yaml --as alice --as-group system:masters", stdout: []string{"Allowed: no policy limits this write"}},
		"an operation":         {args: "-f - --as alice --operation update", stdin: pod, stdout: []string{"the write is UPDATE pods; the policy matches CREATE pods"}},
		"no domain":            {args: "--path /", status: 2, stderr: "the request has no domain: set --domain"},
		"no user":              {args: "-f pod.yaml", status: 2, stderr: "--as is required"},
		"two requests":         {args: "-f pod.yaml --as a request.json", status: 2, stderr: "exclude each other"},
		"an unknown format":    {args: "request.json -o xml", status: 2, stderr: `--output "xml" is invalid: must be one of table, wide, json, yaml`},
		"an invalid address":   {args: "request.json --client-ip here", status: 2, stderr: `--client-ip "here" is invalid: must be an IP address`},
		"an unknown operation": {args: "-f pod.yaml --as a --operation PATCH", status: 2, stderr: `--operation "PATCH" is invalid`},
		"a missing file":       {args: "missing.json", status: 2, stderr: "missing.json"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := runWithInput(t, tc.stdin, append([]string{"explain", "--policies", "policies.yaml"}, strings.Fields(tc.args)...)...)
			if status != tc.status || !strings.Contains(stderr, tc.stderr) {
				t.Errorf("status %d, want %d; stderr:\n%s", status, tc.status, stderr)
			}
			for _, part := range tc.stdout {
				if !strings.Contains(stdout, part) {
					t.Errorf("no %q in\n%s", part, stdout)
				}
			}
		})
	}
}

// Keys that the command shows are those that limiters use, and API keys stay hashed.
func TestExplain_HashesAPIKeysWithTheKeyOfLimiters(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"p.yaml": explainedPolicies, "key": strings.Repeat("k", 32)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := runWithInput(t, "", "explain", "--policies", "p.yaml", "--domain", "shop", "-H", "x-api-key: s3cret", "--hash-key", "key",
		"--prefix", "weir:weir-system/default:", "-o", "json")
	var x admin.Explanation
	if err := json.Unmarshal([]byte(stdout), &x); err != nil || status != 0 {
		t.Fatal(status, err, stderr)
	}
	// printf s3cret | openssl dgst -sha256 -hmac "$(printf 'k%.0s' {1..32})" | cut -c1-32
	const hash = "f109a852f8adb5ac705061ace6cc9e25"
	if c := x.Policies[1].Charge; c == nil || c.Identifier != hash || !strings.HasPrefix(c.Key, "weir:weir-system/default:throttle:apikey:{"+hash+"}:shop/key:") {
		t.Errorf("%+v", c)
	}
	if strings.Contains(stdout, "s3cret") {
		t.Error("the output contains the API key")
	}
}

// The page leaves out some of the lines.
func TestDocs_ExplainPrintsTheTableOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/explain-a-decision.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "$ weir explain --policies config/samples ")
	command, block, _ := strings.Cut(block, "\n")
	block, _, found := strings.Cut(block, "…\n")
	if !found || command != "--domain shop --method GET --path /v1/search -H 'x-tenant-id: acme' -H 'x-plan: free'" {
		t.Fatalf("no such command: %s", command)
	}
	status, stdout, stderr := runWithInput(t, "", "explain", "--policies", "../../config/samples",
		"--domain", "shop", "--method", "GET", "--path", "/v1/search", "-H", "x-tenant-id: acme", "-H", "x-plan: free")
	if status != 0 {
		t.Fatal(status, stderr)
	}
	words := func(line string) string { return strings.Join(strings.Fields(line), " ") }
	printed := strings.Split(stdout, "\n")
	for line := range strings.SplitSeq(block, "\n") {
		if !slices.ContainsFunc(printed, func(p string) bool { return words(p) == words(line) }) {
			t.Errorf("the command does not print %q:\n%s", line, stdout)
		}
	}
}

// runWithInput runs a command line with standard input.
func runWithInput(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(rootCommand(), stdin, args...)
}

// exitDenied is the exit status of weir explain for a request that would be denied.
const exitDenied = 3
