// Package tool runs what manifests are made and checked with. Each program is pinned in a module of its own below hack/, and
// built on first use; promtool comes with the system.
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

// pinnedIn is the directory, below the root of the module, with the go.mod that pins a program.
func pinnedIn(name string) string {
	if name == "kube-score" {
		return "hack/score" // it wants APIs that the others' modules no longer have
	}
	return "hack/manifests"
}

// Path returns the path of kustomize, helm, kube-score or promtool. The go command builds the first three, which takes
// minutes once, into its cache.
func Path(ctx context.Context, name string) (string, error) {
	if name == "promtool" {
		return fixture.Program(ctx, name, "prometheus")
	}
	root, err := fixture.ModuleRoot()
	if err != nil {
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

// paths are those that Path has found: asking the go command takes as long as helm does. Only a package variable spans the tests of
// a package.
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

// Output runs a program of [Path] and returns what it printed, and an error with what it complained of.
func Output(t testing.TB, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), found(t, name), args...)
	// Nothing of the machine's user: no repositories, plugins or defaults of helm.
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "HELM_NAMESPACE=", "KUBECONFIG=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %q: %w: %s", name, args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// Run is [Output] of what must not fail.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := Output(t, name, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// Root is the root of the module, with the path elements below it.
func Root(t testing.TB, below ...string) string {
	t.Helper()
	root, err := fixture.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, below...)...)
}
