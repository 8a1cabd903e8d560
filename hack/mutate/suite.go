package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	// The environment variables that replace a script of the test program.
	scriptName, scriptFile = "WEIR_MUTANT_SCRIPT", "WEIR_MUTANT_FILE"
)

// suite runs the tests of one package on mutants.
type suite struct {
	root, folder string
	skip         string // tests that do not run
	luaBinary    string // the test program that reads the mutant of a script from a file; empty without scripts

	quick, slow []string
	quickTime   time.Duration
	slowTime    time.Duration

	mu    sync.Mutex
	kills map[string]int // how many mutants a test killed
}

// newSuite runs the tests without a mutant: they must pass. Tests that take long run last.
func newSuite(ctx context.Context, root, folder, temporary, skip string) (*suite, error) {
	s := &suite{root: root, folder: folder, skip: skip, kills: map[string]int{}}
	binary := filepath.Join(temporary, "baseline.test")
	if output, err := s.build(ctx, binary, ""); err != nil {
		return nil, fmt.Errorf("build the tests of %s: %w\n%s", folder, err, output)
	}
	defer os.Remove(binary)
	if _, err := os.Stat(binary); err != nil {
		return s, nil //nolint:nilerr // go test writes no program for a package without tests
	}
	if s.hasScripts() {
		if err := s.buildLua(ctx, temporary); err != nil {
			return nil, err
		}
	}
	result := s.run(ctx, binary, nil, "", 30*time.Minute, "-test.v")
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
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, "./"+s.folder)...)
	command.Dir = s.root
	return command.CombinedOutput()
}

func (s *suite) hasScripts() bool {
	files, err := filepath.Glob(filepath.Join(s.root, s.folder, "*.lua"))
	return err == nil && len(files) > 0
}

// buildLua builds the tests once for all mutants of the scripts: an additional file of the package replaces the text of an
// embedded script with that of a file. It works if no variable of the package is computed from a script.
func (s *suite) buildLua(ctx context.Context, temporary string) error {
	code, err := scriptSwitch(filepath.Join(s.root, s.folder))
	if err != nil {
		return err
	}
	file := filepath.Join(temporary, "scripts.go")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		return err
	}
	overlay, err := writeOverlay(temporary, filepath.Join(s.root, s.folder, "zz_mutant_scripts.go"), file)
	if err != nil {
		return err
	}
	s.luaBinary = filepath.Join(temporary, filepath.Base(s.folder)+"-scripts.test")
	if output, err := s.build(ctx, s.luaBinary, overlay); err != nil {
		return fmt.Errorf("build the tests of the scripts in %s: %w\n%s", s.folder, err, output)
	}
	return nil
}

// writeOverlay writes the file for go build -overlay that replaces one file by another.
func writeOverlay(folder, file, by string) (string, error) {
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{file: by}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// scriptSwitch returns the source of a file that replaces the variables with embedded scripts of the package in folder.
func scriptSwitch(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var entries bytes.Buffer
	name := ""
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range regexp.MustCompile(`(?m)^\s*//go:embed (\w+\.lua)\n\s*(?:var )?(\w+) string$`).FindAllSubmatch(source, -1) {
			fmt.Fprintf(&entries, "\t\t%q: &%s,\n", match[1], match[2])
		}
		if match := regexp.MustCompile(`(?m)^package (\w+)`).FindSubmatch(source); match != nil {
			name = string(match[1])
		}
	}
	return fmt.Appendf(nil, `package %s

import "os"

func init() {
	name := os.Getenv(%q)
	if name == "" {
		return
	}
	text, err := os.ReadFile(os.Getenv(%q))
	if err != nil {
		panic(err)
	}
	*map[string]*string{
%s	}[name] = string(text)
}
`, name, scriptName, scriptFile, entries.Bytes()), nil
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
	binary, env := s.luaBinary, []string{scriptName + "=" + filepath.Base(m.File), scriptFile + "=" + changed}
	if !m.isLua() {
		binary, env = filepath.Join(folder, "mutant.test"), nil
		overlay, err := writeOverlay(folder, filepath.Join(s.root, m.File), changed)
		if err != nil {
			return err
		}
		if output, err := s.build(ctx, binary, overlay); err != nil {
			m.Status, m.Killer = NotViable, firstError(output)
			return ctx.Err()
		}
		defer os.Remove(binary)
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
