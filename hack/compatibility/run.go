package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/weir-dev/weir/test/latency"
)

// result is what the tests of one server have shown.
type result struct {
	server  server
	version string
	failed  [][]string // for each column, the failed tests
}

// test runs the tests of all columns on s.
func (s server) test(ctx context.Context, root string, g group) (result, error) {
	choice, err := s.choice(ctx)
	if err != nil {
		return result{}, err
	}
	if err := os.Setenv(g.env, choice); err != nil {
		return result{}, err
	}
	r := result{server: s}
	if r.version, err = s.version(ctx); err != nil {
		return result{}, err
	}
	for _, c := range g.columns {
		fmt.Printf("%s: %s\n", r.version, c.name)
		failed, err := c.test(ctx, root, s.skip)
		if err != nil {
			return result{}, err
		}
		r.failed = append(r.failed, failed)
	}
	return r, nil
}

// test runs the tests of c and returns those that failed. It prints the output of failed tests.
func (c column) test(ctx context.Context, root, skip string) ([]string, error) {
	args := []string{"test", "-json", "-count=1", "-p=1", "-timeout=30m"}
	if c.run != "" {
		args = append(args, "-run="+c.run)
	}
	if skip != "" {
		args = append(args, "-skip="+skip)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, c.packages...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	failed, readErr := failures(events, os.Stdout)
	err = cmd.Wait()
	var exit *exec.ExitError
	if readErr != nil || err != nil && !errors.As(err, &exit) {
		return nil, errors.Join(readErr, err)
	}
	return failed, ctx.Err()
}

// failures reads events of test2json and returns the failed tests without subtests, and the packages that failed outside of a test. It does
// not count tests that were only too slow: latency depends on the machine, not on the version of a server.
func failures(events io.Reader, log io.Writer) ([]string, error) {
	type test struct{ pkg, name string }
	failed, output := map[test]bool{}, map[test]string{}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct {
			Action  string `json:"Action"`
			Package string `json:"Package"`
			Test    string `json:"Test"`
			Output  string `json:"Output"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%w in %q", err, lines.Text())
		}
		t := test{e.Package, e.Test}
		output[t] += e.Output
		if e.Action == "fail" {
			failed[t] = true
		}
	}
	var names []string
	for _, t := range slices.SortedFunc(maps.Keys(failed), func(a, b test) int { return strings.Compare(a.pkg+a.name, b.pkg+b.name) }) {
		hasParts := false
		for other := range failed {
			hasParts = hasParts || other != t && other.pkg == t.pkg && (t.name == "" || strings.HasPrefix(other.name, t.name+"/"))
		}
		if _, slow := latency.Percent(output[t]); hasParts || slow {
			continue
		}
		fmt.Fprint(log, output[t])
		names = append(names, strings.TrimSpace(strings.TrimPrefix(t.pkg, "github.com/weir-dev/weir/")+" "+t.name))
	}
	return names, lines.Err()
}

// failures returns the failed tests of all columns, with the version.
func (r result) failures() []string {
	var all []string
	for _, failed := range r.failed {
		for _, name := range failed {
			all = append(all, r.version+": "+name)
		}
	}
	return all
}
