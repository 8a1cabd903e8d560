package policyci

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/fixture"
)

const (
	goodPolicy = "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: public, namespace: shop}\nspec: {axis: IP, limit: 120, window: 1m}\n"
	goodTest   = "apiVersion: cli.weir.dev/v1alpha1\nkind: PolicyTest\npolicies: [../policies]\ntests:\n- name: an address has a limit\n" +
		"  request: {path: /, clientIP: 192.0.2.1}\n  repeat: 121\n  want: {allowed: 120}\n"
)

// repository is a Git repository with policies, and a program weir on the PATH.
type repository struct {
	dir  string
	weir string
	env  []string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{dir: t.TempDir(), weir: weir}
	r.env = append(os.Environ(), "PATH="+filepath.Dir(weir)+string(filepath.ListSeparator)+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	r.must(t, "git", "init", "--quiet", "--initial-branch=main")
	r.write(t, map[string]string{"policies/public.yaml": goodPolicy, "tests/public.yaml": goodTest})
	r.commit(t)
	return r
}

func (r *repository) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *repository) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// commit commits everything and returns the hash of the commit.
func (r *repository) commit(t *testing.T) string {
	t.Helper()
	r.must(t, "git", "add", "-A")
	r.must(t, "git", "commit", "--quiet", "-m", "a")
	return strings.TrimSpace(r.must(t, "git", "rev-parse", "HEAD"))
}

// run runs a program in the repository and returns its exit status and what it has printed.
func (r *repository) run(t *testing.T, env []string, program string, args ...string) (status int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = r.dir, append(slices.Clone(r.env), env...)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), printed.String()
}

func (r *repository) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	status, output := r.run(t, nil, program, args...)
	if status != 0 {
		t.Fatalf("%s %v: status %d\n%s", program, args, status, output)
	}
	return output
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// action is the part of a composite GitHub Action that its steps need.
type action struct {
	Inputs map[string]struct {
		Description string
		Default     string
	}
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Using string
		Steps []actionStep
	}
}

type actionStep struct {
	Name, ID, Shell, If, Run string
	Env                      map[string]string
}

// runAction runs the steps of the action as a runner does: with bash, files for outputs and a summary, and expressions replaced.
func (r *repository) runAction(t *testing.T, inputs map[string]string) (failed, output, summary string, outputs map[string]string) {
	t.Helper()
	var printed strings.Builder
	var a action
	readYAML(t, "action.yml", &a)
	if a.Runs.Using != "composite" || len(a.Runs.Steps) == 0 {
		t.Fatalf("%+v", a)
	}
	temporary := t.TempDir()
	values := map[string]string{}
	for name, input := range a.Inputs {
		if input.Description == "" {
			t.Errorf("the input %s has no description", name)
		}
		values["inputs."+name] = input.Default
		if strings.Contains(input.Default, "github.event") {
			values["inputs."+name] = ""
		}
		if given, has := inputs[name]; has {
			values["inputs."+name] = given
		}
	}
	for name := range inputs {
		if _, has := a.Inputs[name]; !has {
			t.Fatalf("the action has no input %s", name)
		}
	}
	summaryFile := filepath.Join(temporary, "summary")
	for i, step := range a.Runs.Steps {
		if name, found := strings.CutPrefix(step.If, "inputs."); found {
			if name, found = strings.CutSuffix(name, " != ''"); !found {
				t.Fatalf("unknown condition %q", step.If)
			}
			if values["inputs."+name] == "" {
				continue
			}
		}
		if strings.Contains(step.Run, "${{") {
			t.Errorf("step %s: an input in a script can run commands; pass it in env", step.Name)
		}
		outputFile := filepath.Join(temporary, "output"+step.Name)
		env := []string{"RUNNER_TEMP=" + temporary, "GITHUB_OUTPUT=" + outputFile, "GITHUB_STEP_SUMMARY=" + summaryFile, "GITHUB_ACTION_PATH=/missing"}
		for name, value := range step.Env {
			expression := strings.TrimSuffix(strings.TrimPrefix(value, "${{ "), " }}")
			replaced, known := values[expression]
			if !known {
				t.Fatalf("step %d: unknown expression %q", i, value)
			}
			env = append(env, name+"="+replaced)
		}
		// The flags of the shell bash of a runner.
		status, text := r.run(t, env, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		printed.WriteString(text)
		if written, err := os.ReadFile(outputFile); err == nil {
			for line := range strings.Lines(string(written)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				values["steps."+step.ID+".outputs."+name] = value
			}
		}
		if status != 0 {
			failed = step.Name
			break
		}
	}
	if written, err := os.ReadFile(summaryFile); err == nil {
		summary = string(written)
	}
	outputs = map[string]string{}
	for name, o := range a.Outputs {
		outputs[name] = values[strings.TrimSuffix(strings.TrimPrefix(o.Value, "${{ "), " }}")]
	}
	return failed, printed.String(), summary, outputs
}

func TestAction_ChecksPolicies(t *testing.T) {
	r := newRepository(t)
	base := strings.TrimSpace(r.must(t, "git", "rev-parse", "HEAD"))
	inputs := map[string]string{"weir": r.weir, "tests": "tests", "before": base}

	failed, output, summary, _ := r.runAction(t, inputs)
	if failed != "" || !strings.Contains(output, "1 test, 0 failed") || !strings.Contains(summary, "The policies are the same.") {
		t.Errorf("without a change: %s failed\n%s\n%s", failed, output, summary)
	}

	r.write(t, map[string]string{"policies/public.yaml": strings.Replace(goodPolicy, "120", "60", 1), "tests/public.yaml": strings.ReplaceAll(strings.ReplaceAll(goodTest, "121", "61"), "120", "60")})
	r.commit(t)
	failed, output, summary, outputs := r.runAction(t, inputs)
	if failed != "" || !strings.Contains(summary, "| 🔺 stricter | `shop/public` | `spec.limit`: `120` → `60` |") {
		t.Errorf("a stricter policy: %s failed\n%s\n%s", failed, output, summary)
	}
	if comment, err := os.ReadFile(outputs["diff"]); err != nil || string(comment) != summary {
		t.Errorf("output diff: %v\n%s", err, comment)
	}
	if left := r.must(t, "git", "worktree", "list"); strings.Count(left, "\n") != 1 {
		t.Errorf("work trees remain:\n%s", left)
	}

	r.write(t, map[string]string{"tests/public.yaml": goodTest})
	if failed, output, _, _ = r.runAction(t, inputs); failed != "Test" || !strings.Contains(output, "allowed: want 120, got 60 of 121") {
		t.Errorf("a test that fails: %s failed\n%s", failed, output)
	}
	r.write(t, map[string]string{"policies/public.yaml": strings.Replace(goodPolicy, "120", "100/m", 1)})
	if failed, output, _, _ = r.runAction(t, inputs); failed != "Lint" || !strings.Contains(output, "::error file=policies/public.yaml,line=4,") ||
		!strings.Contains(output, "write limit: 100 and window: 1m") {
		t.Errorf("an invalid policy: %s failed\n%s", failed, output)
	}
	r.write(t, map[string]string{"policies/public.yaml": strings.Replace(goodPolicy, "window: 1m", "window: 1m, algorithm: FixedWindow", 1), "tests/public.yaml": goodTest})
	for strict, want := range map[string]string{"false": "", "true": "Lint"} {
		inputs["strict"] = strict
		if failed, output, _, _ = r.runAction(t, inputs); failed != want {
			t.Errorf("strict %s: %s failed\n%s", strict, failed, output)
		}
	}
}

// The directory of the policies is new: all of them are.
func TestAction_ComparesWithACommitWithoutPolicies(t *testing.T) {
	r := newRepository(t)
	base := strings.TrimSpace(r.must(t, "git", "rev-parse", "HEAD"))
	r.write(t, map[string]string{"limits/a.yaml": goodPolicy})
	r.commit(t)
	failed, output, summary, _ := r.runAction(t, map[string]string{"weir": r.weir, "policies": "limits", "before": base})
	if failed != "" || !strings.Contains(summary, "1 policy differs: 1 new (stricter).") {
		t.Errorf("%s failed\n%s\n%s", failed, output, summary)
	}
}

// gitLabJob is the part of the template that a runner needs.
type gitLabJob struct {
	Variables    map[string]string
	BeforeScript []string `json:"before_script"`
	Script       []string
	Artifacts    struct {
		Reports struct {
			CodeQuality string `json:"codequality"`
			JUnit       []string
		}
		Paths []string
	}
}

func TestGitLab_ChecksPolicies(t *testing.T) {
	var template map[string]gitLabJob
	readYAML(t, "config/ci/gitlab.yml", &template)
	job, exists := template["weir-policies"]
	if !exists || len(template) != 1 {
		t.Fatalf("%+v", template)
	}
	r := newRepository(t)
	base := strings.TrimSpace(r.must(t, "git", "rev-parse", "HEAD"))
	runJob := func(variables ...string) (int, string) {
		var env []string
		for name, value := range job.Variables {
			env = append(env, name+"="+value)
		}
		// The flags of the shell of a runner. It runs all commands in one shell.
		script := strings.Join(slices.Concat(job.BeforeScript, job.Script), "\n")
		return r.run(t, append(env, variables...), "bash", "-eo", "pipefail", "-c", script)
	}

	r.write(t, map[string]string{"policies/public.yaml": strings.Replace(goodPolicy, "120", "200", 1)})
	r.commit(t)
	status, output := runJob("CI_MERGE_REQUEST_DIFF_BASE_SHA="+base, "WEIR_TESTS=")
	if status != 0 || !strings.Contains(r.read(t, job.Artifacts.Paths[0]), "| 🔻 looser | `shop/public` | `spec.limit`: `120` → `200` |") {
		t.Errorf("status %d\n%s", status, output)
	}
	if issues := strings.TrimSpace(r.read(t, job.Artifacts.Reports.CodeQuality)); issues != "[]" {
		t.Errorf("issues %s", issues)
	}

	status, output = runJob("WEIR_TESTS=tests")
	if status == 0 || !strings.Contains(output, "allowed: want 120, got 121 of 121") {
		t.Errorf("a test that fails: status %d\n%s", status, output)
	}
	for _, report := range job.Artifacts.Reports.JUnit {
		var suites struct {
			Tests int `xml:"tests,attr"`
		}
		if err := xml.Unmarshal([]byte(r.read(t, report)), &suites); err != nil || suites.Tests != 1 {
			t.Errorf("%s: %v, %d tests", report, err, suites.Tests)
		}
	}

	r.write(t, map[string]string{"policies/public.yaml": strings.Replace(goodPolicy, "axis: IP", "axis: ip", 1)})
	status, output = runJob()
	var issues []struct{ Fingerprint string }
	if err := json.Unmarshal([]byte(r.read(t, job.Artifacts.Reports.CodeQuality)), &issues); err != nil || status != 1 || len(issues) != 1 {
		t.Errorf("an invalid policy: status %d, %v, %v\n%s", status, err, issues, output)
	}
	r.write(t, map[string]string{"policies/public.yaml": strings.Replace(goodPolicy, "window: 1m", "window: 1m, algorithm: FixedWindow", 1)})
	for flags, want := range map[string]int{"": 0, "--strict": 1} {
		if status, output := runJob("WEIR_LINT_FLAGS=" + flags); status != want {
			t.Errorf("flags %q: status %d, want %d\n%s", flags, status, want, output)
		}
	}
}

// hook is a hook of pre-commit.
type hook struct {
	ID, Name, Entry, Language string
	PassFilenames             *bool    `json:"pass_filenames"`
	TypesOr                   []string `json:"types_or"`
}

func TestHooks_RunTheirEntries(t *testing.T) {
	var hooks []hook
	readYAML(t, ".pre-commit-hooks.yaml", &hooks)
	r := newRepository(t)
	for _, h := range hooks {
		args := append(strings.Fields(h.Entry), map[string]string{"weir-lint": "policies", "weir-test": "tests"}[h.ID])
		if h.Language != "system" || h.PassFilenames == nil || *h.PassFilenames || args[0] != "weir" {
			t.Errorf("%+v", h)
		}
		if status, output := r.run(t, nil, r.weir, args[1:]...); status != 0 {
			t.Errorf("%v: status %d\n%s", args, status, output)
		}
	}
	if len(hooks) != 2 {
		t.Errorf("%d hooks", len(hooks))
	}
}
