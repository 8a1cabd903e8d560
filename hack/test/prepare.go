package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// workFolder contains what the tests use, below the root of the module.
const workFolder = "bin/test"

// hasRaceDetector reports whether the go command can build with the race detector, which needs a C compiler.
func hasRaceDetector(ctx context.Context) bool {
	lines, err := output(ctx, nil, "env", "CC")
	if err != nil || len(lines) == 0 {
		return false
	}
	_, err = exec.LookPath(strings.Fields(lines[0])[0])
	return err == nil
}

// kubeCached reports whether kube-apiserver is in the cache of kubetest.KubeAssets. The answer is only for the message at the start.
func kubeCached() bool {
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return true
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return false
	}
	version := os.Getenv("WEIR_TEST_KUBE")
	if version == "" {
		text, err := os.ReadFile("hack/kube/go.mod")
		found := regexp.MustCompile(`k8s\.io/kubernetes (v\S+)`).FindSubmatch(text)
		if err != nil || found == nil {
			return false
		}
		version = string(found[1])
	}
	_, err = os.Stat(filepath.Join(cache, "weir", "kube", version, "kube-apiserver")) //nolint:gosec // G703: the path is the developer's own
	return err == nil
}

// prerequisites returns the arguments of hack/prepare: the programs that a target needs. No argument selects all.
func prerequisites(target string, race bool) []string {
	switch {
	case target == targetTestAll:
		return nil
	case race:
		return []string{"cc", "redis", "kube"}
	default:
		return []string{"redis", "kube"}
	}
}

// programs builds the programs of ./cmd for all packages that run them, and returns their folder. The name of the folder contains the hash of
// the programs. The tests read it from $WEIR_BIN, so that Go runs them again after a change of any package of a program. Unchanged files
// stay as they are: the go command links a program in bin/test/programs only if it changes, and compares the times of the copies.
func (r *runner) programs(ctx context.Context) (string, error) {
	mains, err := output(ctx, nil, "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./cmd/...")
	if err != nil {
		return "", err
	}
	built := filepath.Join(workFolder, "programs")
	if err := os.MkdirAll(built, 0o755); err != nil {
		return "", err
	}
	// Without the commit in the programs: git refuses to read a tree of another user, as in a container.
	if err := r.goCommand(ctx, withoutCollector(), append([]string{"build", "-json", "-x", "-buildvcs=false", "-o", built + "/"}, mains...)...); err != nil {
		return "", err
	}
	names := make([]string, 0, len(mains))
	for _, path := range mains {
		names = append(names, path[strings.LastIndex(path, "/")+1:])
	}
	return keep(built, names)
}

// keep copies files to a folder named by their hash, and deletes folders with other hashes.
func keep(from string, names []string) (string, error) {
	hash := sha256.New()
	for _, name := range names {
		fmt.Fprintf(hash, "%s\n", name)
		if err := copyFile(hash, filepath.Join(from, name)); err != nil {
			return "", err
		}
	}
	to := from + "-" + hex.EncodeToString(hash.Sum(nil))[:16]
	old, err := filepath.Glob(from + "-*")
	if err != nil {
		return "", err
	}
	for _, path := range old {
		if path != to {
			if err := os.RemoveAll(path); err != nil {
				return "", err
			}
		}
	}
	if _, err := os.Stat(to); err == nil {
		return filepath.Abs(to)
	}
	return publish(from, to, names)
}

// publish copies files to a folder that appears with all of them.
func publish(from, to string, names []string) (string, error) {
	partial, err := os.MkdirTemp(filepath.Dir(to), "partial-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(partial) }()
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(partial, name), os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			return "", err
		}
		if err := copyFile(f, filepath.Join(from, name)); err != nil {
			return "", err
		}
		if err := f.Close(); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(partial, to); err != nil {
		return "", err
	}
	return filepath.Abs(to)
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(w, f)
	return err
}
