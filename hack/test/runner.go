package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// kubeBuild is the time to build kube-apiserver, etcd and kubectl on two cores.
const kubeBuild = 5 * time.Minute

// A runner runs the tests of a plan.
type runner struct {
	began   time.Time
	screen  *progress
	results *results
	history history

	mu        sync.Mutex
	phase     string // what it does before the tests
	plan      plan
	toCompile map[string]bool // by import path
	compiled  int             // packages before that
}

func newRunner(out *os.File, events io.Writer) *runner {
	r := &runner{began: time.Now(), history: readHistory(filepath.Join(workFolder, "history.json")), phase: "reading packages"}
	r.screen = &progress{out: out, status: r.status, printed: time.Now()}
	if terminal := int(out.Fd()); term.IsTerminal(terminal) && os.Getenv("TERM") != "dumb" {
		r.screen.columns = func() int {
			columns, _, _ := term.GetSize(terminal) // without a size, lines stay as they are
			return columns
		}
	}
	r.results = newResults(events, r.screen.line)
	return r
}

// target runs the tests of a target, only those of the packages that match patterns if there are any.
func (r *runner) target(ctx context.Context, target string, race bool, patterns []string) error {
	all := len(patterns) == 0
	if all {
		patterns = []string{"./..."}
	}
	packages, err := testPackages(ctx, patterns)
	if err != nil {
		return err
	}
	kube := !all || kubeCached()
	lock, err := filepath.Abs(filepath.Join(workFolder, "alone"))
	if err != nil {
		return err
	}
	detector := race && hasRaceDetector(ctx)
	if err := r.schedule(ctx, newPlan(target, detector, packages, lock), all); err != nil {
		return err
	}
	r.announce(kube)
	if all {
		if err := r.prepare(ctx, prerequisites(target, race)); err != nil {
			return err
		}
		// hack/prepare may have installed a C compiler, and has compiled packages of the tests if it has built kube-apiserver.
		if installed := race && !detector && hasRaceDetector(ctx); installed || !kube {
			detector = detector || installed
			if err := r.schedule(ctx, newPlan(target, detector, packages, lock), all); err != nil {
				return err
			}
		}
	}
	if err := r.test(ctx, lock); err != nil {
		return err
	}
	if race && !detector {
		r.screen.line("NOTE: the tests ran without the race detector. To enable it, run: apt-get install gcc libc6-dev")
	}
	return nil
}

// schedule sets the plan, and counts what must be compiled for it.
func (r *runner) schedule(ctx context.Context, p plan, all bool) error {
	if all && p.target == targetTestAll {
		p.addModules()
	}
	p.order(r.history.seconds)
	toCompile := map[string]bool{}
	for _, b := range p.all() {
		stale, err := notCompiled(ctx, b)
		if err != nil {
			return err
		}
		for _, path := range stale {
			toCompile[path] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results.mu.Lock()
	defer r.results.mu.Unlock()
	r.plan, r.toCompile, r.compiled = p, toCompile, r.results.compiled
	return nil
}

// announce prints what follows and how long it takes.
func (r *runner) announce(kube bool) {
	detector := "without the race detector"
	if r.plan.race {
		detector = "with the race detector for concurrent packages"
	}
	var steps []string
	left := estimate(r.history, len(r.toCompile), r.packagesLeft())
	if !kube {
		left += kubeBuild
		steps = append(steps, "build kube-apiserver, etcd and kubectl, or download them")
	}
	if n := len(r.toCompile); n > 0 {
		steps = append(steps, "compile "+plural(n, "package"))
	}
	steps = append(steps, "test "+plural(r.plan.size(), "package"))
	if n := len(r.plan.aside); n > 0 {
		steps = append(steps, "test "+plural(n, "other module"))
	}
	r.screen.line(fmt.Sprintf("make %s, %s: %s.", r.plan.target, detector, strings.Join(steps, ", ")))
	r.screen.line(fmt.Sprintf("This takes at most about %s: results in the cache of Go take no time. Later runs only test what has changed.", minutes(left)))
}

// prepare installs or builds the programs that the tests need.
func (r *runner) prepare(ctx context.Context, names []string) error {
	r.setPhase("preparing " + strings.Join(names, ", "))
	program := filepath.Join(workFolder, "prepare")
	if err := r.goCommand(ctx, withoutCollector(), "build", "-json", "-x", "-buildvcs=false", "-o", program, "./hack/prepare"); err != nil {
		return err
	}
	show := func(line []byte) { r.screen.line(string(line)) }
	return stream(ctx, command(ctx, nil, program, names...), show, show)
}

// test runs the batches of the plan. What all tests share starts and stops here.
func (r *runner) test(ctx context.Context, lock string) error {
	r.setPhase("building the programs of cmd")
	programs, err := r.programs(ctx)
	if err != nil {
		return err
	}
	if err := os.Setenv("WEIR_BIN", programs); err != nil {
		return err
	}
	unlock, err := lockShared(lock)
	if err != nil {
		return err
	}
	r.setPhase("")
	compiling := time.Now()
	for _, b := range slices.Concat(r.plan.concurrent, r.plan.others) {
		r.compile(ctx, b)
	}
	r.measure(time.Since(compiling))
	aside := r.start(ctx, r.plan.aside)
	problems := []error{r.inTurn(ctx, r.plan.concurrent)}
	waiting := r.start(ctx, r.plan.waiting) // not earlier: the time in which they wait counts for their timeout
	problems = append(problems, r.inTurn(ctx, r.plan.others), aside())
	unlock()
	problems = append(problems, waiting(), r.inTurn(ctx, r.plan.last), r.remember())
	return errors.Join(problems...)
}

// compile compiles the packages and the tests of a batch. go test would do so as well, but with the environment of its tests, which collect
// garbage. It reports no error: go test does, with the name of the package.
func (r *runner) compile(ctx context.Context, b batch) {
	args := append([]string{"-C", b.module, "list", "-e", "-export", "-test", "-x"}, raceFlag(b)...)
	_ = stream(ctx, command(ctx, slices.Concat(b.env, withoutCollector()), "go", append(args, b.packages...)...), func([]byte) {}, r.results.addCommand)
}

// lockShared locks a file until the function that it returns is called. An unchanged file stays: tests open it, and the go command compares
// its time.
func lockShared(path string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// start runs batches at the same time as others. The function that it returns waits for them.
func (r *runner) start(ctx context.Context, batches []batch) func() error {
	done := make(chan error, 1)
	go func() { done <- r.inTurn(ctx, batches) }()
	return func() error { return <-done }
}

func (r *runner) inTurn(ctx context.Context, batches []batch) error {
	var problems []error
	for _, b := range batches {
		if ctx.Err() == nil {
			// make verify runs go vet. Without debug information and symbols, the linker takes half of the time. -x prints what is
			// compiled.
			args := append([]string{"-C", b.module, "test", "-json", "-x", "-vet=off", "-ldflags=-s", "-timeout=15m"}, b.flags...)
			problems = append(problems, r.goCommand(ctx, b.env, append(args, b.packages...)...))
		}
	}
	return errors.Join(problems...)
}

// goCommand runs a go command that prints events.
func (r *runner) goCommand(ctx context.Context, env []string, args ...string) error {
	return stream(ctx, command(ctx, env, "go", args...), r.results.add, func(line []byte) { r.screen.line(string(line)) })
}

func (r *runner) setPhase(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

// status returns what the runner does.
func (r *runner) status() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results.mu.Lock()
	defer r.results.mu.Unlock()
	if r.phase != "" {
		return fmt.Sprintf("%s: %s; compiled %d packages", minutes(time.Since(r.began)), r.phase, r.results.compiled)
	}
	c := counts{
		took: time.Since(r.began), toCompile: len(r.toCompile), compiled: len(r.toCompile) - r.compileLeft(), packages: r.plan.size(),
		cached: len(r.results.cached), failed: len(r.results.failed), left: estimate(r.history, r.compileLeft(), r.packagesLeft()),
	}
	c.tested = c.packages - len(r.packagesLeft())
	for pkg := range r.results.running {
		c.running = append(c.running, short(pkg))
	}
	return c.String()
}

// compileLeft returns how many packages are not yet compiled.
func (r *runner) compileLeft() int { return max(0, len(r.toCompile)-(r.results.compiled-r.compiled)) }

// packagesLeft returns the packages whose tests have not ended.
func (r *runner) packagesLeft() []string {
	var left []string
	for _, b := range r.plan.all() {
		for _, pkg := range b.packages {
			if !r.results.tested[pkg] {
				left = append(left, short(pkg))
			}
		}
	}
	return left
}

// measure updates the time of a compilation, if enough was compiled.
func (r *runner) measure(took time.Duration) {
	r.results.mu.Lock()
	defer r.results.mu.Unlock()
	if n := len(r.toCompile) - r.compileLeft(); n > 200 {
		r.history.Compiled = took.Seconds() / float64(n)
	}
}

// remember writes what the packages took, for the estimates of the next run.
func (r *runner) remember() error {
	r.results.mu.Lock()
	defer r.results.mu.Unlock()
	maps.Copy(r.history.Seconds, r.results.seconds)
	return r.history.write(filepath.Join(workFolder, "history.json"))
}
