package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weir-dev/weir/test/fixture"
)

// The two revisions.
const (
	base = iota
	head
)

// side is one of the two revisions.
type side struct {
	name   string // base or head
	title  string // its commit
	binary string
}

// build builds both revisions into dir.
func build(ctx context.Context, s settings, dir string, progress func(string, ...any)) (sides [2]side, err error) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		return sides, err
	}
	for i, revision := range []string{s.base, s.head} {
		sides[i].name = []string{"base", "head"}[i]
		from := root
		if revision == "" {
			sides[i].title, err = describe(ctx, root, "HEAD")
			sides[i].title = "this tree, on " + sides[i].title
		} else if sides[i].title, err = describe(ctx, root, revision); err == nil {
			from = filepath.Join(dir, "source-"+sides[i].name)
			err = extract(ctx, root, revision, from)
		}
		if err != nil {
			return sides, err
		}
		progress("building %s: %s", sides[i].name, sides[i].title)
		sides[i].binary = filepath.Join(dir, "weir-"+sides[i].name)
		if _, err := output(ctx, from, "go", "build", "-buildvcs=false", "-o", sides[i].binary, "./cmd/weir"); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// describe returns the hash and the subject of a commit.
func describe(ctx context.Context, root, revision string) (string, error) {
	text, err := output(ctx, root, "git", "log", "-1", "--format=%h %s", "--end-of-options", revision)
	return strings.TrimSpace(string(text)), err
}

// extract writes the files of a commit to dir. The repository does not learn of it, as it would of a work tree.
func extract(ctx context.Context, root, revision, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	archive := dir + ".tar"
	if _, err := output(ctx, root, "git", "archive", "--output", archive, revision); err != nil {
		return err
	}
	if _, err := output(ctx, dir, "tar", "-xf", archive); err != nil {
		return err
	}
	return os.Remove(archive)
}

// output runs a command and returns what it writes.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}
