// Package tool runs the programs that build and check manifests. Modules in hack/ pin their versions, and the first use builds them.
// promtool is a package of the system.
package tool

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// pinnedIn returns the directory with the go.mod that pins a program, relative to the root of the module.
func pinnedIn(name string) string {
	if name == "kube-score" {
		return "hack/score" // it needs older modules than the other programs
	}
	return "hack/manifests"
}

// Path returns the path of kustomize, helm, kube-score or promtool. The go command builds the first three into its cache, which takes
// minutes the first time.
func Path(ctx context.Context, name string) (string, error) {
	if name == "promtool" {
		return fixture.Program(ctx, name, "prometheus")
	}
	root, err := fixture.ModuleRoot()
	if err != nil {
		return "", err
	}
	if err := fixture.Track(filepath.Join(root, pinnedIn(name))); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, pinnedIn(name)), "tool", "-n", name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build %s, pinned in %s/go.mod: %w: %s", name, pinnedIn(name), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// paths caches the results of Path, because the go command takes as long as a run of helm. Only a package variable can be shared by the
// tests of a package.
var paths sync.Map //nolint:gochecknoglobals // see above

func found(t testing.TB, name string) string {
	t.Helper()
	if path, ok := paths.Load(name); ok {
		return path.(string) //nolint:forcetypeassert // only this function stores
	}
	path, err := Path(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	paths.Store(name, path)
	return path
}

// Output runs a program of [Path] and returns its standard output, and an error with its standard error.
func Output(t testing.TB, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), found(t, name), args...)
	// Without the settings of the user: repositories, plugins and defaults of helm.
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "HELM_NAMESPACE=", "KUBECONFIG=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %q: %w: %s", name, args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// Run is [Output], and fails the test if the program fails.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := Output(t, name, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// Root returns a path in the root directory of the module. Go tracks the files there, because most readers are other processes.
func Root(t testing.TB, below ...string) string {
	t.Helper()
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if len(below) == 0 {
		return root
	}
	path := filepath.Join(append([]string{root}, below...)...)
	if err := fixture.Track(path); err != nil {
		t.Fatal(err)
	}
	return path
}
