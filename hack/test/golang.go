package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// interruptDelay is how long a program may run after an interrupt.
const interruptDelay = 5 * time.Second

// command runs a program in a process group of its own, so that an interrupt reaches the processes that it has started.
func command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptDelay
	return cmd
}

// wait waits for a started program. After an interrupt, no process of its group stays.
func wait(ctx context.Context, cmd *exec.Cmd) error {
	err := cmd.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually no process is left
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%.60s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// output returns the lines that a go command prints.
func output(ctx context.Context, env []string, args ...string) ([]string, error) {
	cmd := command(ctx, env, "go", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Start()
	if err == nil {
		err = wait(ctx, cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	return strings.FieldsFunc(stdout.String(), func(r rune) bool { return r == '\n' }), nil
}

// stream runs a program, and passes each line of its output to a function.
func stream(ctx context.Context, cmd *exec.Cmd, stdout, stderr func(line []byte)) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	problems := &lineWriter{line: stderr}
	cmd.Stderr = problems
	if err := cmd.Start(); err != nil {
		return err
	}
	// A process that survives its parent can keep the pipe open after an interrupt.
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(interruptDelay, func() { _ = out.Close() }) })
	defer stop()
	err = eachLine(out, stdout)
	if ctx.Err() != nil {
		err = nil // wait returns the reason
	}
	return errors.Join(wait(ctx, cmd), err)
}

// eachLine passes each line of r to a function, however long it is.
func eachLine(r io.Reader, line func([]byte)) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		text, err := lines.ReadBytes('\n')
		if len(text) > 0 {
			line(bytes.TrimSuffix(text, []byte("\n")))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lineWriter passes each line that is written to a function.
type lineWriter struct {
	line func([]byte)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.line(line)
		w.rest = rest
	}
}

// testPackages returns the import paths of the packages with tests.
func testPackages(ctx context.Context, patterns []string) ([]string, error) {
	return output(ctx, nil, append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, patterns...)...)
}

// notCompiled returns what the go command compiles before it runs the tests of a batch, because it is not in the build cache.
func notCompiled(ctx context.Context, b batch) ([]string, error) {
	args := []string{"-C", b.module, "list", "-e", "-deps", "-test", "-f", "{{.ImportPath}}\t{{.Stale}}\t{{join .Imports \"\\t\"}}"}
	args = append(args, raceFlag(b)...)
	lines, err := output(ctx, b.env, append(args, b.packages...)...)
	return needed(lines), err
}

// raceFlag returns the flag -race if b has it.
func raceFlag(b batch) []string {
	if slices.Contains(b.flags, "-race") {
		return []string{"-race"}
	}
	return nil
}

// withoutCollector returns the environment of a go command that only compiles. The compiler and the linker collect no garbage, which is a quarter of
// their CPU time, until one of them has 1.5 GiB of memory.
func withoutCollector() []string { return []string{"GOGC=off", "GOMEMLIMIT=1536MiB"} }

// needed returns the stale packages that another package imports, the main package of a test for example. The go command lists a tested
// package also without its tests, which it compiles only for other packages.
func needed(lines []string) []string {
	var stale []string
	imported := map[string]bool{}
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		for _, path := range fields[2:] {
			imported[path] = true
		}
		if fields[1] == "true" {
			stale = append(stale, fields[0])
		}
	}
	kept := stale[:0]
	for _, path := range stale {
		if imported[path] {
			kept = append(kept, path)
		}
	}
	return kept
}
