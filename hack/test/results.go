package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is a line of go test -json and go build -json. ImportPath is set in events of builds.
type event struct {
	Action     string  `json:"Action"`
	Package    string  `json:"Package"`
	Test       string  `json:"Test"`
	Output     string  `json:"Output"`
	Elapsed    float64 `json:"Elapsed"`
	ImportPath string  `json:"ImportPath"`
}

// test identifies a test. Name is empty for the package itself.
type test struct{ pkg, name string }

func (t test) String() string { return strings.TrimSpace(short(t.pkg) + " " + t.name) }

// results are what the events of all go commands report. Its methods are safe for concurrent use.
type results struct {
	print func(text string) // called with the lock held
	save  io.Writer         // events without the commands of builds, the input of hack/retry

	mu             sync.Mutex
	tests, skipped int
	failed         []test
	failures       map[string]int // failed tests by package
	output         map[test][]string
	builds         map[string][]string // the errors of the compiler by package
	running        map[string]time.Time
	compiled       int // packages
	tested, cached map[string]bool
	seconds        map[string]float64 // by package; those from the cache are not in it
}

func newResults(save io.Writer, show func(string)) *results {
	return &results{
		print: show, save: save, failures: map[string]int{}, output: map[test][]string{}, builds: map[string][]string{},
		running: map[string]time.Time{}, tested: map[string]bool{}, cached: map[string]bool{},
		seconds: map[string]float64{},
	}
}

// add adds a line of events.
func (r *results) add(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if err := json.Unmarshal(line, &e); err != nil {
		r.print(string(line)) // of the go command itself
		return
	}
	if e.ImportPath != "" || e.Action == "build-output" {
		if !r.addBuild(e) {
			return
		}
	} else {
		r.addTest(e, test{e.Package, e.Test})
	}
	_, _ = fmt.Fprintf(r.save, "%s\n", line) // hack/retry rejects an incomplete file
}

// addBuild reports whether the event is more than a command of the build, which the flag -x prints.
func (r *results) addBuild(e event) bool {
	switch problems := r.builds[e.ImportPath]; {
	case e.Action == "build-fail":
		r.print("=== FAIL: build of " + short(e.ImportPath) + "\n" + strings.Join(problems, ""))
	case len(problems) > 0 || strings.HasPrefix(e.Output, "# "): // the errors of a package begin with its name
		r.builds[e.ImportPath] = append(problems, e.Output)
	default:
		r.countCompiled(e.Output)
		return false
	}
	return true
}

// addCommand adds a line that the flag -x of a go command prints.
func (r *results) addCommand(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countCompiled(string(line))
}

// countCompiled counts the package that a command compiles, if it is one of the compiler.
func (r *results) countCompiled(command string) {
	if strings.Contains(command, "/compile ") && !strings.HasPrefix(command, "cat >") {
		r.compiled++
	}
}

func (r *results) addTest(e event, t test) {
	switch e.Action {
	case "start":
		r.running[t.pkg] = time.Now()
	case "run":
		r.tests++
		r.output[t] = nil // it has begun
	case "output":
		if t.name == "" && strings.HasSuffix(e.Output, "\t(cached)\n") {
			r.cached[t.pkg] = true
		}
		r.output[t] = append(r.output[t], e.Output)
	case "pass", "skip", "fail":
		if t.name == "" {
			r.endPackage(e)
			return
		}
		switch e.Action {
		case "skip":
			r.skipped++
		case "fail":
			r.fail(t, e.Elapsed)
		}
		delete(r.output, t)
	}
}

func (r *results) fail(t test, seconds float64) {
	r.failed = append(r.failed, t)
	r.failures[t.pkg]++
	r.print(fmt.Sprintf("=== FAIL: %s (%.2fs)\n%s", t, seconds, strings.Join(r.output[t], "")))
}

// endPackage handles the end of a package. A test that has not ended then explains a failure, as does output outside of tests.
func (r *results) endPackage(e event) {
	delete(r.running, e.Package)
	r.tested[e.Package] = true
	if e.Action == "fail" {
		for _, t := range r.unfinished(e.Package) {
			r.fail(t, e.Elapsed)
		}
		if t := (test{e.Package, ""}); r.failures[e.Package] == 0 {
			r.fail(t, e.Elapsed)
		} else {
			r.print(strings.Join(r.output[t], ""))
		}
	}
	for t := range r.output {
		if t.pkg == e.Package {
			delete(r.output, t)
		}
	}
	if r.cached[e.Package] {
		return
	}
	r.seconds[short(e.Package)] = e.Elapsed
	if e.Action == "pass" {
		r.print(fmt.Sprintf("ok    %s (%.1fs)", short(e.Package), e.Elapsed))
	}
}

// unfinished returns the tests of a package that have begun and not ended, in order.
func (r *results) unfinished(pkg string) []test {
	var tests []test
	for t := range r.output {
		if t.pkg == pkg && t.name != "" {
			tests = append(tests, t)
		}
	}
	slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return tests
}

// summary returns the failed tests and the line that counts the tests, in the form of gotestsum, which CI recognizes.
func (r *results) summary(took time.Duration) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	if len(r.failed) > 0 {
		text.WriteString("\n=== Failed, with the output above:\n")
	}
	for _, t := range r.failed {
		fmt.Fprintf(&text, "    %s\n", t)
	}
	fmt.Fprintf(&text, "\n%s tested, %d from the cache of Go\n", plural(len(r.tested), "package"), len(r.cached))
	fmt.Fprintf(&text, "DONE %d tests%s%s in %.3fs", r.tests, count(r.skipped, "skipped", ""), count(len(r.failed), "failure", "s"), took.Seconds())
	return text.String()
}

func count(n int, noun, plural string) string {
	switch n {
	case 0:
		return ""
	case 1:
		plural = ""
	}
	return fmt.Sprintf(", %d %s%s", n, noun, plural)
}
