package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Forwarded is a local port that kubectl forwards to the cluster.
type Forwarded struct {
	process *exec.Cmd
	Address string
}

// Forward runs kubectl port-forward on a free local port.
func (s *Scenario) Forward(ctx context.Context, target string, port int) (*Forwarded, error) {
	f := &Forwarded{process: exec.CommandContext(ctx, s.kubectl, "-n", System, "port-forward", target, fmt.Sprintf(":%d", port))}
	out, err := f.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var problems strings.Builder
	f.process.Stderr = &problems
	if err := f.process.Start(); err != nil {
		return nil, fmt.Errorf("forward %s: %w", target, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if address == "" {
		return nil, fmt.Errorf("forward %s: %q: %w", target, line, errors.Join(err, f.Stop(), errors.New(problems.String())))
	}
	f.Address = address
	return f, nil
}

// Stop ends kubectl port-forward.
func (f *Forwarded) Stop() error {
	if err := f.process.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	_ = f.process.Wait() // its exit status reports the interrupt
	return nil
}

// Command sends an inline command to Redis and returns the texts and numbers of the reply.
func (f *Forwarded) Command(ctx context.Context, line string) ([]string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", f.Address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, line+"\r\n"); err != nil {
		return nil, err
	}
	reply, err := readReply(bufio.NewReader(conn))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	return reply, nil
}

// readReply reads a reply such as ":7\r\n" or "*2\r\n$1\r\na\r\n$1\r\nb\r\n". No text contains a line break.
func readReply(from *bufio.Reader) ([]string, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case ':':
		return []string{rest}, nil
	case '$':
		text, err := from.ReadString('\n')
		return []string{strings.TrimRight(text, "\r\n")}, err
	case '*':
		length, err := strconv.Atoi(rest)
		if err != nil {
			return nil, err
		}
		var texts []string
		for range length {
			element, err := readReply(from)
			if err != nil {
				return nil, err
			}
			texts = append(texts, element...)
		}
		return texts, nil
	default:
		return nil, fmt.Errorf("invalid reply %q", line)
	}
}
