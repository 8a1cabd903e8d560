//go:build gateways

package policyci

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// preCommit installs pre-commit into the cache of the project. pip verifies the hashes.
func preCommit(t *testing.T, r *repository, python string) (directory string) {
	t.Helper()
	requirements, err := filepath.Abs("testdata/requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(text)
	directory = filepath.Join(cache, "weir", "python-"+hex.EncodeToString(hash[:8]))
	unlock, err := fixture.LockFile(t.Context(), directory+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := os.Stat(directory); err == nil {
		return directory
	}
	r.must(t, python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--require-hashes", "--target", directory+".new", "--upgrade", "-r", requirements)
	if err := os.Rename(directory+".new", directory); err != nil {
		t.Fatal(err)
	}
	return directory
}

// TestHooks_RunInPreCommit runs the hooks of this repository in pre-commit, on a repository with policies.
func TestHooks_RunInPreCommit(t *testing.T) {
	python, err := fixture.Program(t.Context(), "python3", "python3")
	if err != nil {
		t.Fatal(err)
	}
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	r := newRepository(t)
	r.env = append(r.env, "PYTHONPATH="+preCommit(t, r, python), "PRE_COMMIT_HOME="+t.TempDir())
	// The hooks alone, in a repository: pre-commit clones it.
	hooks := &repository{dir: t.TempDir(), env: r.env}
	text, err := os.ReadFile(filepath.Join(root, ".pre-commit-hooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	hooks.must(t, "git", "init", "--quiet", "--initial-branch=main")
	hooks.write(t, map[string]string{".pre-commit-hooks.yaml": string(text)})
	revision := hooks.commit(t)
	r.write(t, map[string]string{".pre-commit-config.yaml": "repos:\n- repo: file://" + hooks.dir + "\n  rev: " + revision +
		"\n  hooks:\n  - {id: weir-lint, args: [--strict, policies]}\n  - {id: weir-test, args: [tests]}\n"})
	r.commit(t)
	r.must(t, python, "-m", "pre_commit", "validate-manifest", filepath.Join(hooks.dir, ".pre-commit-hooks.yaml"))
	if status, output := r.run(t, nil, python, "-m", "pre_commit", "run", "--all-files"); status != 0 || strings.Count(output, "Passed") != 2 {
		t.Errorf("status %d\n%s", status, output)
	}
	r.write(t, map[string]string{"policies/public.yaml": strings.Replace(goodPolicy, "limit: 120", "limit: 100/m", 1)})
	r.must(t, "git", "add", "-A")
	status, output := r.run(t, nil, python, "-m", "pre_commit", "run")
	if status != 1 || strings.Count(output, "Failed") != 2 || !strings.Contains(output, "write limit: 100 and window: 1m") {
		t.Errorf("an invalid policy: status %d\n%s", status, output)
	}
}
