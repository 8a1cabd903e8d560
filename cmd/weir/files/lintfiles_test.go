package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/findings"
)

// inDirectory changes to a new directory with files.
func inDirectory(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A check that has nothing to check fails.
func TestLint_FailsWithoutPolicies(t *testing.T) {
	inDirectory(t, map[string]string{
		"empty/README.md":   "nothing\n",
		"foreign/a.yaml":    strings.ReplaceAll(goodPolicies, "weir.dev/", "weir.io/"),
		"others/a.yaml":     "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
		"json/a.json":       `{"apiVersion": "weir.dev/v1alpha1", "kind": "RateLimitPolicy", "metadata": {"name": "a", "namespace": "shop"}, "spec": {"axis": "IP", "limit": -1, "window": "1m"}}`,
		"package/a.json":    `{"name": "web"}`,
		"limiter/a.yaml":    "apiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: a, namespace: shop}\nspec: {redis: {addresses: [\"redis:6379\"]}}\n",
		"comments/a.yaml":   "# later\n",
		"badlimiter/a.yaml": "apiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: a, namespace: shop}\nspec: {}\n",
	})
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"empty":      {1, "empty:1: there is no *.yaml, *.yml or *.json file; name the files with the policies [nothing-to-check]"},
		"foreign":    {1, "foreign/a.yaml:6: shop/public: apiVersion: RateLimitPolicy in weir.io/v1alpha1 is not a kind of Weir, and limits nothing here; write apiVersion: weir.dev/v1alpha1 [foreign-group]"},
		"others":     {1, "others:1: there is neither a policy nor a Limiter in 1 file, but 1 Namespace; name the files with the policies [nothing-to-check]"},
		"json":       {1, "json/a.json:1: shop/a: spec.limit: Invalid value: -1"},
		"package":    {1, "in 1 file, but 1 JSON file;"},
		"limiter":    {0, ""},
		"comments":   {1, "[nothing-to-check]"},
		"badlimiter": {1, "spec.redis: Required value"},
	} {
		for _, format := range findings.Formats() {
			status, stdout, stderr := runLint("", path, "-o", format)
			if status != want.status || format == findings.Text && !strings.Contains(stdout, want.text) {
				t.Errorf("%s as %s: status %d, want %d\n%s%s", path, format, status, want.status, stdout, stderr)
			}
		}
	}
}

func TestLint_StrictFailsOnWarnings(t *testing.T) {
	for _, format := range findings.Formats() {
		for _, strict := range []bool{false, true} {
			args := []string{"-", "-o", format}
			want := 0
			if strict {
				args, want = append(args, "--strict"), 1
			}
			if status, stdout, stderr := runLint(uselessPolicies, args...); status != want {
				t.Errorf("%v: status %d, want %d\n%s%s", args, status, want, stdout, stderr)
			}
		}
	}
}

const limiterWithTable = `apiVersion: weir.dev/v1alpha1
kind: Limiter
metadata: {name: default, namespace: weir-system}
spec:
  redis: {addresses: ["redis:6379"]}
  identity: {user: {header: x-account}, credentials: [x-account]}
  policyBudget: {total: {rules: 1}}
---
`

const twoPolicies = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: accounts, namespace: shop}
spec:
  axis: User
  limit: 10
  window: 1m
  tiers:
  - name: partner
    when: {identifiers: [acme]}
    limit: 100
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: addresses, namespace: shop}
spec: {axis: IP, limit: 10, window: 1m}
`

func TestLint_AppliesTheLimiterOfTheFiles(t *testing.T) {
	secret := "-:18: shop/accounts: spec.tiers[0].when.identifiers: secret identifiers such as API keys are in plain text"
	status, stdout, stderr := runLint(limiterWithTable+twoPolicies, "-")
	if status != 0 || stdout != "" || !strings.Contains(stderr, "warning: "+secret) ||
		!strings.Contains(stderr, "shop/addresses: spec: with the budget of Limiter weir-system/default: ") || !strings.Contains(stderr, "2 policies, 1 Limiter") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	if _, _, stderr := runLint(twoPolicies, "-"); strings.Contains(stderr, "secret") || strings.Contains(stderr, "budget") {
		t.Errorf("without a Limiter:\n%s", stderr)
	}
	other := strings.NewReplacer("name: default", "name: other", ", credentials: [x-account]", "", "rules: 1", "rules: 100").Replace(limiterWithTable)
	_, _, stderr = runLint(limiterWithTable+other+twoPolicies, "-")
	if !strings.Contains(stderr, "weir-system/other: has another identity table or policy budget than weir-system/default") || strings.Contains(stderr, "secret") {
		t.Errorf("two Limiters:\n%s", stderr)
	}
	if _, _, stderr = runLint(limiterWithTable+other+twoPolicies, "-", "--limiter", "weir-system/default"); !strings.Contains(stderr, "secret identifiers") {
		t.Errorf("--limiter:\n%s", stderr)
	}
	status, _, stderr = runLint(limiterWithTable+twoPolicies, "-", "--limiter", "a/b")
	if status != 2 || !strings.Contains(stderr, "--limiter: the files have no valid Limiter a/b; they have weir-system/default") {
		t.Errorf("an unknown Limiter: status %d\n%s", status, stderr)
	}
}

const suppressedPolicies = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata:
  name: bursts
  namespace: shop
  annotations:
    ignore.lint.weir.dev/window-boundary: "Bursts at midnight are harmless."
    ignore.lint.weir.dev/large-log: "unneeded"
    ignore.lint.weir.dev/no-effect: ""
    ignore.lint.weir.dev/windowboundary: "a typo"
    ignore.lint.weir.dev/invalid-value: "an error"
    example.com/other: a
spec: {axis: IP, limit: 5, window: 1m, algorithm: FixedWindow}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: bursts, namespace: other}
spec: {axis: IP, limit: 5, window: 1m, algorithm: FixedWindow}
`

func TestLint_SuppressesWarningsWithAReason(t *testing.T) {
	_, stdout, stderr := runLint(suppressedPolicies, "-")
	want := []string{
		`warning: -:8: shop/bursts: metadata.annotations[ignore.lint.weir.dev/large-log]: suppresses nothing; remove the annotation [unneeded-suppression]`,
		`warning: -:9: shop/bursts: metadata.annotations[ignore.lint.weir.dev/no-effect]: has no reason, and suppresses nothing; write the reason as the value [invalid-suppression]`,
		`warning: -:10: shop/bursts: metadata.annotations[ignore.lint.weir.dev/windowboundary]: weir lint has no rule "windowboundary"; did you mean window-boundary? [invalid-suppression]`,
		`warning: -:11: shop/bursts: metadata.annotations[ignore.lint.weir.dev/invalid-value]: an error cannot be suppressed: the policy is not enforced [invalid-suppression]`,
		`warning: -:18: other/bursts: spec.algorithm: FixedWindow can admit up to 10 units within a short time around the end of a window [window-boundary]`,
		`2 policies, 0 problems, 5 warnings, 1 suppressed`,
	}
	if got := strings.Split(strings.TrimSpace(stderr), "\n"); !slices.Equal(got, want) || stdout != "" {
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", stdout, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	_, stdout, _ = runLint(suppressedPolicies, "-", "-o", "json")
	var report struct{ Findings []findings.Finding }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(report.Findings, func(f findings.Finding) bool { return f.Suppressed == "Bursts at midnight are harmless." }); i < 0 {
		t.Errorf("the suppressed finding is not in the report:\n%s", stdout)
	}
}

// An annotation without a reason suppresses nothing.
func TestLint_NeedsAReason(t *testing.T) {
	for _, reason := range []string{`""`, `"  "`} {
		_, _, stderr := runLint(strings.Replace(suppressedPolicies, `"Bursts at midnight are harmless."`, reason, 1), "-")
		if !strings.Contains(stderr, "shop/bursts: spec.algorithm: FixedWindow can admit up to 10 units") || !strings.Contains(stderr, "window-boundary]: has no reason") {
			t.Errorf("reason %s:\n%s", reason, stderr)
		}
	}
}

func TestLint_WritesSeveralOutputs(t *testing.T) {
	inDirectory(t, map[string]string{"bad.yaml": badPolicies})
	status, stdout, stderr := runLint("", "bad.yaml", "-o", "github", "-o", "sarif=weir.sarif", "-o", "junit=weir.xml", "-o", "text=weir.txt")
	if status != 1 || strings.Count(stdout, "::error file=bad.yaml,line=") != 2 || stderr != "2 policies, 2 problems\n" {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	for file, want := range map[string]string{"weir.sarif": `"ruleId": "invalid-value"`, "weir.xml": "<testsuites", "weir.txt": "2 policies, 2 problems"} {
		if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s: %v\n%s", file, err, content)
		}
	}
	for args, want := range map[string]string{
		"-o sarif -o json":       "--output sarif and --output json are both for standard output: name a file for one of them, such as json=FILE",
		"-o xml":                 `--output "xml" is invalid: must be one of text, json, sarif, junit, github, gitlab, optionally with =FILE`,
		"-o sarif=":              `--output "sarif=" has no name of a file`,
		"-o sarif=missing/a.txt": `--output "sarif=missing/a.txt" is invalid: missing/a.txt cannot be written: the directory missing does not exist: create it`,
		"-o sarif=bad.yaml":      `--output "sarif=bad.yaml" is invalid: bad.yaml is an input of the command (bad.yaml), and writing would replace it: name another file`,
	} {
		status, _, stderr := runLint("", append([]string{"bad.yaml"}, strings.Fields(args)...)...)
		if status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d\n%s", args, status, stderr)
		}
	}
}

func TestLint_WarnsOfThePolicyWithoutANamespace(t *testing.T) {
	_, _, stderr := runLint(strings.ReplaceAll(goodPolicies, ", namespace: shop", ""), "-")
	if want := "warning: -:8: default/public: metadata: has no namespace, so that the policy limits the requests of domain default; set metadata.namespace [default-namespace]\n"; !strings.Contains(stderr, want) {
		t.Error(stderr)
	}
	if _, _, stderr := runLint("apiVersion: weir.dev/v1alpha1\nkind: ClusterRateLimitPolicy\nmetadata: {name: a}\nspec: {axis: IP, limit: 10, window: 1m}\n", "-"); strings.Contains(stderr, "namespace") {
		t.Error(stderr)
	}
}

// The same files have the same report: a schema reports the problems of one line in any order.
func TestLint_HasTheSameOrderEachTime(t *testing.T) {
	inDirectory(t, map[string]string{"a.yaml": strings.Replace(goodPolicies, "axis: IP", "axis: ip, limit: -1, burst: x, algorithm: y, scope: z, storage: a, enforcement: b", 1) +
		"---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec: {axis: ip, limit: -1, window: 60, scope: z, storage: a, overrun: c}\n"})
	first := ""
	for range 8 {
		if _, stdout, _ := runLint("", "a.yaml"); first == "" {
			first = stdout
		} else if stdout != first {
			t.Fatalf("got\n%s\nand before\n%s", stdout, first)
		}
	}
	if strings.Count(first, "a.yaml:") < 5 {
		t.Errorf("few problems:\n%s", first)
	}
}
