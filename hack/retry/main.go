// Command retry decides whether a failed run of all tests can be repeated. It reads the events of the run (test2json) and exits with status
// 0 only if every failed test failed only because of latency (package test/latency) while at least 5 % of the CPU time was stolen. It then
// prints these tests in one line. Otherwise it prints what failed in another way, and exits with status 1.
//
//	go run ./hack/retry EVENTS
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/test/latency"
)

// leastStolen is the smallest stolen share of the CPU time that explains a failure, in percent.
const leastStolen = 5

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./hack/retry EVENTS")
		os.Exit(2)
	}
	line, err := retry(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "retry: the tests are not repeated:", err)
		os.Exit(1)
	}
	fmt.Println(line)
}

func retry(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the developer's own
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	r, err := read(f)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return r.forgiven()
}

// event is a line of test2json. ImportPath is set in events of builds.
type event struct {
	Action     string `json:"Action"`
	Package    string `json:"Package"`
	Test       string `json:"Test"`
	Output     string `json:"Output"`
	ImportPath string `json:"ImportPath"`
}

// test identifies a test. Name is empty for what a package prints outside of its tests.
type test struct{ pkg, name string }

func (t test) String() string {
	return strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(t.pkg, "github.com/weir-dev/weir/")+" "+t.name), " ")
}

// run is what the events of a run contain.
type run struct {
	failed   map[test]bool
	running  map[test]bool // they have not ended
	output   map[test][]string
	problems []string // that no latency explains
}

// fatal matches output of a program that failed outside of a test, whichever test it is attributed to.
var fatal = regexp.MustCompile(
	`WARNING: DATA RACE|race detected during execution|^panic: |^fatal error: |test timed out after|goleak: |found unexpected goroutines`)

func read(events io.Reader) (*run, error) {
	r := &run{failed: map[test]bool{}, running: map[test]bool{}, output: map[test][]string{}}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%w in %q", err, lines.Text())
		}
		r.add(e)
	}
	return r, lines.Err()
}

func (r *run) add(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "run":
		r.running[t] = true
	case "pass", "skip":
		delete(r.running, t)
	case "fail":
		delete(r.running, t)
		r.failed[t] = true
	case "build-fail":
		r.problems = append(r.problems, e.ImportPath+": build failed")
	case "output":
		r.output[t] = append(r.output[t], e.Output)
		if fatal.MatchString(e.Output) {
			r.problems = append(r.problems, t.String()+": "+strings.TrimSpace(e.Output))
		}
	}
}

// forgiven returns the failed tests in one line if latency explains them all, and otherwise an error with the others.
func (r *run) forgiven() (string, error) {
	problems, slow := slices.Clone(r.problems), []string(nil)
	for t := range r.running {
		problems = append(problems, t.String()+": did not end")
	}
	for _, t := range slices.SortedFunc(maps.Keys(r.failed), func(a, b test) int { return strings.Compare(a.String(), b.String()) }) {
		part := r.failedBelow(t)
		switch stolen, only := r.onlyLatency(t); {
		case part && r.reports(t):
			problems = append(problems, t.String()+": may have failed in another way than its subtests")
		case part: // its subtests explain it
		case !only:
			problems = append(problems, t.String()+": failed, not because of latency")
		case stolen < leastStolen:
			problems = append(problems, fmt.Sprintf("%s: too slow while %d %% of the CPU time was stolen; at least %d %% explain it", t, stolen, leastStolen))
		default:
			slow = append(slow, fmt.Sprintf("%s: too slow while %d %% of the CPU time was stolen", t, stolen))
		}
	}
	if len(slow)+len(problems) == 0 {
		problems = append(problems, "no test failed")
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return "", errors.New(strings.Join(problems, "; "))
	}
	return strings.Join(slow, "; "), nil
}

// failedBelow reports whether a test of the package t, or a subtest of the test t, failed.
func (r *run) failedBelow(t test) bool {
	for other := range r.failed {
		if other.pkg == t.pkg && other != t && (t.name == "" || strings.HasPrefix(other.name, t.name+"/")) {
			return true
		}
	}
	return false
}

// message matches a message of a test: its file and line.
var message = regexp.MustCompile(`^\s+\S+\.go:\d+: `)

// reports is true if t itself has messages. They can be errors.
func (r *run) reports(t test) bool {
	return t.name != "" && slices.ContainsFunc(r.output[t], message.MatchString)
}

// onlyLatency reports whether t failed only because of latency, and the smallest share that was stolen meanwhile.
func (r *run) onlyLatency(t test) (stolen int, only bool) {
	stolen = 100
	for _, line := range r.output[t] {
		if percent, ok := latency.Percent(line); ok && message.MatchString(line) {
			stolen, only = min(stolen, percent), true
		}
	}
	return stolen, only
}
