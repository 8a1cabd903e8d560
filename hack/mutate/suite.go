package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	quickTest     = 300 * time.Millisecond // tests that take less run first
	timeoutFactor = 10                     // a mutant times out after this multiple of the usual time of the tests
	minTimeout    = time.Minute
	// goldenTests compare the scripts with copies. They fail for every mutant of a script, whether or not it matters.
	goldenTests = "^TestScripts_EqualTheirGoldenCopies$"
)

// suite runs the tests of one package on mutants.
type suite struct {
	root, folder string
	skip         string // tests that do not run
	binary       string // the test program with all mutants that have an id, and those of the scripts

	quick, slow []string
	quickTime   time.Duration
	slowTime    time.Duration

	mu    sync.Mutex
	kills map[string]int // how many mutants a test killed
}

// newSuite builds the tests of folder and runs them without a mutant: they must pass. Tests that take long run last. overlay
// is that of the schema.
func newSuite(ctx context.Context, root, folder, temporary, skip, overlay string) (*suite, error) {
	s := &suite{root: root, folder: folder, skip: skip, kills: map[string]int{}}
	s.binary = filepath.Join(temporary, strings.ReplaceAll(folder, "/", "-")+".test")
	if output, err := s.build(ctx, s.binary, overlay); err != nil {
		return nil, fmt.Errorf("build the tests of %s: %w\n%s", folder, err, output)
	}
	if _, err := os.Stat(s.binary); err != nil {
		return s, nil //nolint:nilerr // go test writes no program for a package without tests
	}
	result := s.run(ctx, s.binary, nil, "", 30*time.Minute, "-test.v")
	if !result.passed {
		return nil, fmt.Errorf("the tests of %s fail without a mutant:\n%s", folder, tail(result.output))
	}
	for test, took := range testTimes(result.output) {
		if took < quickTest {
			s.quick, s.quickTime = append(s.quick, test), s.quickTime+took
		} else {
			s.slow, s.slowTime = append(s.slow, test), s.slowTime+took
		}
	}
	slices.Sort(s.quick)
	slices.Sort(s.slow)
	return s, nil
}

// testTimes returns the times of the top-level tests, from the output of a test with -test.v.
func testTimes(output []byte) map[string]time.Duration {
	times := map[string]time.Duration{}
	for _, match := range regexp.MustCompile(`(?m)^--- PASS: (\S+) \(([0-9.]+)s\)`).FindAllSubmatch(output, -1) {
		seconds, err := strconv.ParseFloat(string(match[2]), 64)
		if err == nil {
			times[string(match[1])] = time.Duration(seconds * float64(time.Second))
		}
	}
	return times
}

// build writes the test program of the package. overlay is a file in the format of go build -overlay, or empty.
func (s *suite) build(ctx context.Context, binary, overlay string) ([]byte, error) {
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-gcflags=-e", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, "./"+s.folder)...)
	command.Dir = s.root
	return command.CombinedOutput()
}

// verdict is what the tests report about a mutant.
type verdict struct {
	passed, timedOut bool
	output           []byte
}

// run runs the tests that match the pattern: all for "".
func (s *suite) run(ctx context.Context, binary string, env []string, pattern string, timeout time.Duration, flags ...string) verdict {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	args := append([]string{"-test.failfast", "-test.paniconexit0", "-test.timeout=" + (2 * timeout).String()}, flags...)
	if pattern != "" {
		args = append(args, "-test.run="+pattern)
	}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	var output bytes.Buffer
	command := exec.CommandContext(ctx, binary, args...)
	command.Dir = filepath.Join(s.root, s.folder)
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = &output, &output
	// A group of its own, so that the servers that a test started end with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 10 * time.Second
	err := command.Run()
	if command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what a killed test has left
	}
	return verdict{passed: err == nil, timedOut: errors.Is(ctx.Err(), context.DeadlineExceeded), output: output.Bytes()}
}

// try runs tests on the mutant until one fails: first the quick ones, then those that killed other mutants. It writes its
// files to folder.
func (s *suite) try(ctx context.Context, m *Mutant, folder string) error {
	source, err := os.ReadFile(filepath.Join(s.root, m.File))
	if err != nil {
		return err
	}
	changed := filepath.Join(folder, filepath.Base(m.File))
	if err := os.WriteFile(changed, m.apply(source), 0o600); err != nil {
		return err
	}
	binary, env := s.binary, []string{fmt.Sprintf("%s=%d", mutantID, m.id)}
	switch {
	case m.isLua():
		env = []string{scriptName + "=" + filepath.Base(m.File), scriptFile + "=" + changed}
	case m.id == 0:
		binary, env = filepath.Join(folder, "mutant.test"), nil
		overlay := filepath.Join(folder, "overlay.json")
		if err := writeOverlay(overlay, map[string]string{filepath.Join(s.root, m.File): changed}); err != nil {
			return err
		}
		if output, err := s.build(ctx, binary, overlay); err != nil {
			m.Status, m.Killer = NotViable, firstError(output)
			return ctx.Err()
		}
		defer func() { _ = os.Remove(binary) }()
	}
	for _, phase := range s.phases() {
		result := s.run(ctx, binary, env, phase.pattern, max(minTimeout, timeoutFactor*phase.usual))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if result.passed {
			continue
		}
		m.Status, m.Killer = Killed, failedTest(result.output)
		if result.timedOut {
			m.Status = TimedOut
		} else if m.isLua() && bytes.Contains(result.output, []byte("Error compiling script")) {
			m.Status = NotViable
		}
		s.mu.Lock()
		s.kills[m.Killer]++
		s.mu.Unlock()
		return nil
	}
	m.Status = Survived
	return nil
}

// phase is a part of the tests that runs in one process.
type phase struct {
	pattern string
	usual   time.Duration
}

func (s *suite) phases() []phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	killers := slices.SortedFunc(maps.Keys(s.kills), func(a, b string) int {
		return cmp.Or(s.kills[b]-s.kills[a], strings.Compare(a, b))
	})
	var first, last []string
	for _, test := range killers {
		if slices.Contains(s.slow, test) && len(first) < 3 {
			first = append(first, test)
		}
	}
	for _, test := range s.slow {
		if !slices.Contains(first, test) {
			last = append(last, test)
		}
	}
	var phases []phase
	add := func(tests []string, usual time.Duration) {
		if len(tests) > 0 {
			phases = append(phases, phase{"^(" + strings.Join(tests, "|") + ")$", usual})
		}
	}
	add(s.quick, s.quickTime)
	add(first, s.slowTime)
	add(last, s.slowTime)
	return phases
}

// failedTest returns the name of the first test that failed; "" if the process failed without one.
func failedTest(output []byte) string {
	match := regexp.MustCompile(`(?m)^\s*--- FAIL: ([^/\s]+)`).FindSubmatch(output)
	if match == nil {
		return ""
	}
	return string(match[1])
}

func firstError(output []byte) string {
	for line := range strings.Lines(string(output)) {
		if !strings.HasPrefix(line, "#") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func tail(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
