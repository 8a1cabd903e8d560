// Program tutorial runs the commands of a Markdown page, in one shell, and compares what they print with the page.
//
//	go run ./hack/tutorial [-skip REGEXP] PAGE
//
// Commands are the lines of console blocks that start with "$ ". The lines below a command are its expected output, in which
// "…" stands for any text, and a line of "…" for any number of lines. The output of a command without expected lines is not
// compared. Commands that match -skip are printed and not run.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/weir-dev/weir/hack/command"
)

// limit is for one command.
const limit = 5 * time.Minute

func main() {
	flags := flag.NewFlagSet("tutorial", flag.ExitOnError)
	skip := flags.String("skip", "^$", "commands that match this regular expression are not run")
	_ = flags.Parse(os.Args[1:]) // ExitOnError
	if flags.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "tutorial: name one Markdown page")
		os.Exit(2)
	}
	command.Main("tutorial", func(ctx context.Context) error { return run(ctx, flags.Arg(0), *skip) })
}

func run(ctx context.Context, page, skip string) error {
	skipped, err := regexp.Compile(skip)
	if err != nil {
		return fmt.Errorf("-skip: %w", err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	steps := parse(string(text))
	if len(steps) == 0 {
		return fmt.Errorf("%s has no commands: no line of a console block starts with %q", page, "$ ")
	}
	shell, err := newShell(ctx)
	if err != nil {
		return err
	}
	defer shell.close()
	for _, s := range steps {
		if skipped.MatchString(s.command) {
			fmt.Printf("%s:%d: skipped: %s\n", page, s.line, s.command)
			continue
		}
		fmt.Printf("%s:%d: $ %s\n", page, s.line, s.command)
		got, status, err := shell.run(s.command)
		fmt.Print(got)
		switch {
		case err != nil:
			return fmt.Errorf("%s:%d: %w", page, s.line, err)
		case len(s.want) == 0 && status != "0":
			return fmt.Errorf("%s:%d: the command failed with exit status %s", page, s.line, status)
		case len(s.want) > 0 && !matches(s.want, got):
			return fmt.Errorf("%s:%d: the output differs from the page:\n%s", page, s.line, strings.Join(s.want, "\n"))
		}
	}
	fmt.Printf("tutorial: all commands of %s print what the page shows\n", page)
	return nil
}

// step is a command and the lines that it must print, nil if any output will do.
type step struct {
	command string
	want    []string
	line    int // of the command in the page, from 1
}

// parse returns the commands of the console blocks of a Markdown page.
func parse(page string) []step {
	var steps []step
	inside, continued := false, false
	number := 0
	for line := range strings.Lines(page) {
		number++
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			inside, continued = line == "```console", false
		case !inside:
		case continued:
			last := &steps[len(steps)-1]
			last.command += "\n" + line
			continued = strings.HasSuffix(line, `\`)
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{command: strings.TrimPrefix(line, "$ "), line: number})
			continued = strings.HasSuffix(line, `\`)
		case len(steps) > 0:
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps
}

// matches reports whether the output of a command is the expected one.
func matches(want []string, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range want {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		quoted := regexp.QuoteMeta(line)
		pattern.WriteString(strings.ReplaceAll(quoted, "…", ".*") + ` *\n`)
	}
	pattern.WriteString(`$`)
	lines := make([]string, 0, len(want))
	for line := range strings.Lines(got) {
		lines = append(lines, strings.TrimRight(line, " \r\n"))
	}
	return regexp.MustCompile(pattern.String()).MatchString(strings.Join(lines, "\n") + "\n")
}

// shell is one bash, in which all commands run, so that background processes and variables last.
type shell struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan string // lines of the output; closed at its end
}

// mark ends the output of a command; the exit status follows it.
const mark = "tutorial-command-ended-with "

func newShell(ctx context.Context) (*shell, error) {
	cmd := exec.CommandContext(ctx, "bash")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open the input of bash: %w", err)
	}
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start bash: %w", err)
	}
	s := &shell{cmd: cmd, in: in, out: make(chan string)}
	go func() {
		defer close(s.out)
		scanner := bufio.NewScanner(reader)
		for scanner.Scan() {
			s.out <- scanner.Text()
		}
	}()
	return s, nil
}

// run runs a command and returns its output and exit status. A page may show a command that fails: that is no error here.
func (s *shell) run(command string) (output, status string, err error) {
	if _, err := fmt.Fprintf(s.in, "%s\nprintf '%%s%%s\\n' '%s' $?\n", command, mark); err != nil {
		return "", "", fmt.Errorf("write to bash: %w", err)
	}
	var out strings.Builder
	timeout := time.After(limit)
	for {
		select {
		case line, open := <-s.out:
			if !open {
				return out.String(), "", errors.New("bash has ended")
			}
			before, status, ended := strings.Cut(line, mark)
			if !ended {
				out.WriteString(line + "\n")
				continue
			}
			if before != "" {
				out.WriteString(before + "\n")
			}
			return out.String(), status, nil
		case <-timeout:
			return out.String(), "", fmt.Errorf("no end after %s", limit)
		}
	}
}

// close ends bash and the processes that it left in the background.
func (s *shell) close() {
	_ = s.in.Close()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM) // the process group
	_ = s.cmd.Wait()
}
