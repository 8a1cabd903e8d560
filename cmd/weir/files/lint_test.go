package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
)

const goodPolicies = `# Good from top to bottom.
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: public, namespace: shop}
spec: {axis: IP, limit: 120, window: 1m}
`

const badPolicies = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: no-limit, namespace: shop}
spec:
  axis: IP
  limit: -1
  window: 1m
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: expression, namespace: shop}
spec:
  axis: IP
  limit: 1
  window: 1m
  match:
    http:
      paths:
      - type: RegularExpression
        value: "(/v1"
`

const uselessPolicies = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: lax, namespace: shop}
spec: {axis: User, limit: 10, window: 1m}
---
apiVersion: weir.dev/v1alpha1
kind: ClusterRateLimitPolicy
metadata: {name: strict}
spec:
  axis: User
  limit: 5
  window: 1m
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: bursts, namespace: shop}
spec:
  axis: IP
  limit: 5
  window: 1m
  algorithm: FixedWindow
`

// The paths in these cases are relative to a directory with good.yaml and bad.yaml.
func TestLint_ReportsProblems(t *testing.T) {
	firstBad, _, _ := strings.Cut(badPolicies, "---")
	badLines := "bad.yaml:6: shop/no-limit: spec.limit: Invalid value: -1: spec.limit in body should be greater than or equal to 0 [invalid-value]\n" +
		"bad.yaml:20: shop/expression: spec.match.http.paths[0].value: \"(/v1\" is not a valid RE2 expression: missing closing ): `(/v1` [invalid-value]\n"
	for name, tc := range map[string]struct {
		args           []string
		stdin          string
		status         int
		stdout, stderr string
	}{
		"a clean file is 0": {
			args: []string{"good.yaml"}, stderr: "1 policy, 0 problems; skipped: 1 Namespace\n",
		},
		"problems are 1, with file and line": {
			args: []string{"bad.yaml"}, status: 1, stdout: badLines, stderr: "2 policies, 2 problems\n",
		},
		"a directory is all its files": {
			args: []string{"."}, status: 1, stdout: badLines, stderr: "3 policies, 2 problems; skipped: 1 Namespace\n",
		},
		"warnings are 0, with file and line": {
			args: []string{"-"}, stdin: uselessPolicies,
			stderr: "warning: -:4: shop/lax: spec: has no effect, because policy _cluster/strict counts the same requests and is at least as strict [stricter-policy]\n" +
				"warning: -:21: shop/bursts: spec.algorithm: FixedWindow can admit up to 10 units within a short time around the end of a window [window-boundary]\n" +
				"3 policies, 0 problems, 2 warnings\n",
		},
		"a Limiter is counted, because it is validated": {
			args: []string{"-"}, stdin: goodPolicies + "---\napiVersion: weir.dev/v1alpha1\nkind: Limiter\nmetadata: {name: a, namespace: shop}\n" +
				"spec: {redis: {addresses: [\"redis:6379\"]}}\n",
			stderr: "1 policy, 1 Limiter, 0 problems; skipped: 1 Namespace\n",
		},
		"a dash is standard input": {
			args: []string{"-"}, stdin: firstBad, status: 1,
			stdout: "-:6: shop/no-limit: spec.limit: Invalid value: -1: spec.limit in body should be greater than or equal to 0 [invalid-value]\n",
			stderr: "1 policy, 1 problem\n",
		},
		"no argument is a usage error": {
			status: 2, stderr: "weir lint: missing argument: name files or directories, or - for standard input; see weir lint --help\n",
		},
		"a missing file is a usage error": {
			args: []string{"good.yaml", "missing.yaml"}, status: 2,
			stderr: "weir lint: missing.yaml does not exist: check the name, and the directory that the command runs in\n",
		},
		"an unknown flag is a usage error": {
			args: []string{"--strictly", "good.yaml"}, status: 2, stderr: "weir lint: unknown flag --strictly; see weir lint --help\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for file, content := range map[string]string{"good.yaml": goodPolicies, "bad.yaml": badPolicies} {
				if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			status, stdout, stderr := runLint(tc.stdin, tc.args...)
			if status != tc.status {
				t.Errorf("status %d, want %d", status, tc.status)
			}
			if diff := cmp.Diff(tc.stdout, stdout) + cmp.Diff(tc.stderr, stderr); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLint_PrintsABoundedNumberOfBytes(t *testing.T) {
	const policies = 3000
	badKinds := strings.Repeat("apiVersion: weir.dev/v1alpha1\nkind: Policy\n---\n", policies)
	var skipped strings.Builder
	for i := range policies {
		fmt.Fprintf(&skipped, "apiVersion: v1\nkind: K%04d\n---\n", i)
	}
	named := func(name string) string {
		return strings.Replace(goodPolicies, "limit: 5", "limit: -1\n  other: 1\n  another: 2", 1) + "\n---\n" +
			"apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: " + name + "}\nspec: {a: 1, b: 1, a: 2, axis: IP, limit: -1, window: 1m}\n"
	}
	for name, test := range map[string]struct {
		stdin          string
		most           int // bytes
		stdout, stderr string
	}{
		"many problems": {badKinds, 200 << 10, "\nand 2000 more\n", "3000 problems"},
		"many kinds":    {skipped.String() + goodPolicies, 1 << 10, "", "1 K0019, 2981 other kinds\n"},
		"a long name":   {named(strings.Repeat("x", 1<<20)), 20 << 10, "metadata.name", "problems"},
	} {
		_, stdout, stderr := runLint(test.stdin, "-")
		if n := len(stdout) + len(stderr); n > test.most || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("%s: %d bytes, want at most %d with %q and %q:\n%.2000s\n%.2000s", name, n, test.most, test.stdout, test.stderr, stdout, stderr)
		}
	}
}

func TestLint_HelpHasExamples(t *testing.T) {
	status, stdout, _ := runLint("", "--help")
	for _, want := range []string{"weir lint policies/", "| weir lint -", "run lint again after a fix", "Exit status, in each format: 0 if there are no errors"} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("status %d, and help without %q:\n%s", status, want, stdout)
		}
	}
}

func TestLint_AcceptsTheSamples(t *testing.T) {
	status, stdout, stderr := runLint("", filepath.Join("..", "..", "..", "config", "samples"))
	if status != 0 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

func runLint(stdin string, args ...string) (status int, stdout, stderr string) {
	return runCommand(LintCommand(), stdin, args...)
}

// runCommand runs one command of weir, without the others.
func runCommand(command *cobra.Command, stdin string, args ...string) (status int, stdout, stderr string) {
	root := &cobra.Command{Use: "weir"}
	root.AddCommand(command)
	return clitest.Run(cli.Complete(root), stdin, append([]string{command.Name()}, args...)...)
}
