// Package ask has the commands that ask running limiters: explain, rules, counters, bypass, block, top and logs. The program weir asks one process by its
// admin endpoint, and kubectl weir all replicas of a Limiter through the operator.
package ask

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/reply"
)

// Timeout bounds a call.
const Timeout = 30 * time.Second

// Limiters are the limiters that a command asks.
type Limiters interface {
	// AddFlags adds the flags that select the limiters, and their completions.
	AddFlags(cmd *cobra.Command)
	// Selected returns an error if the flags select no limiters.
	Selected() error
	// Request sends in, unless it is nil, to a path of the admin endpoint, and returns the response: that of one process, or a proxyapi.Answer
	// if the limiters are replicated. The caller calls closeConnection when it has read the body.
	Request(ctx context.Context, method, path string, body []byte) (response *http.Response, closeConnection func(), err error)
	// Replicated reports whether the limiters are the replicas of a Limiter.
	Replicated() bool
	// Keep keeps the connection for later calls, until end.
	Keep() (end func())
	// Policies returns the names of the enforced policies, for completion. After an error it returns nil.
	Policies(ctx context.Context) []string
	// String describes the limiters for messages, for example "the admin endpoint 127.0.0.1:9091".
	String() string
}

// Commands returns the commands that ask limiters. limiters is called once for each command.
func Commands(limiters func() Limiters) []*cobra.Command {
	return []*cobra.Command{
		explainCommand(limiters()), rulesCommand(limiters), countersCommand(limiters), bypassCommand(limiters), blockCommand(limiters),
		topCommand(limiters()), logsCommand(limiters()),
	}
}

// replicaAnswer is the answer of one replica. The name is empty for a process that is no replica.
type replicaAnswer[T any] struct {
	replica string
	value   T
}

// call sends in, unless it is nil, to the limiters, and returns at least one answer. It reports replicas without an answer to notes.
func call[T any](ctx context.Context, limiters Limiters, method, path string, body []byte, notes io.Writer) ([]replicaAnswer[T], error) {
	answers, _, err := callAll[T](ctx, limiters, method, path, body, notes)
	return answers, err
}

// callAll is call, and also returns the names of the replicas without an answer, or whose answer is an error.
func callAll[T any](
	ctx context.Context, limiters Limiters, method, path string, body []byte, notes io.Writer,
) (answers []replicaAnswer[T], missing []string, err error) {
	if err := limiters.Selected(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	defer cli.Waiting(notes, limiters.String())()
	response, closeConnection, err := limiters.Request(ctx, method, path, body) //nolint:bodyclose // closeConnection closes it
	if err != nil {
		return nil, nil, err
	}
	defer closeConnection()
	if limiters.Replicated() {
		var answer proxyapi.Answer
		if err := Decode(response, &answer); err != nil {
			return nil, nil, err
		}
		return split[T](&answer, notes)
	}
	var value T
	if err := Decode(response, &value); err != nil {
		return nil, nil, err
	}
	return []replicaAnswer[T]{{value: value}}, nil, nil
}

// stream calls a path that streams lines, and calls read for each, until the stream ends.
func stream(ctx context.Context, limiters Limiters, path string, read func(line []byte) error) error {
	if err := limiters.Selected(); err != nil {
		return err
	}
	response, closeConnection, err := limiters.Request(ctx, http.MethodGet, path, nil) //nolint:bodyclose // closeConnection closes it
	if err != nil {
		return err
	}
	defer closeConnection()
	if response.StatusCode != http.StatusOK {
		return Decode(response, nil)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := read(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the response of the admin endpoint: %w", err)
	}
	if limiters.Replicated() {
		return errors.New("the operator has ended the stream")
	}
	return errors.New("the limiter has ended the stream")
}

// split returns the answers of the replicas, and the names of the others. It reports those to notes, and fails without an answer.
func split[T any](answer *proxyapi.Answer, notes io.Writer) (answers []replicaAnswer[T], missing []string, err error) {
	bodies := map[string]json.RawMessage{}
	var failed error
	for i := range answer.Replicas {
		r := &answer.Replicas[i]
		if r.Error != "" {
			terminal.Printf(notes, "replica %s does not answer: %s\n", r.Pod, escaped(r.Error))
			missing = append(missing, r.Pod)
			continue
		}
		if r.SameAs != "" {
			r.Body = bodies[r.SameAs]
		}
		bodies[r.Pod] = r.Body
		one := replicaAnswer[T]{replica: r.Pod}
		if err := decode(r.Status, r.Body, &one.value); err != nil {
			if failed == nil {
				failed = err
			} else if failed.Error() != err.Error() {
				terminal.Printf(notes, "replica %s: %v\n", r.Pod, err)
			}
			missing = append(missing, r.Pod)
			continue
		}
		answers = append(answers, one)
	}
	switch {
	case len(answers) > 0 && failed != nil:
		terminal.Printf(notes, "some replicas answer with an error: %v\n", failed)
	case len(answers) == 0 && failed != nil:
		return nil, missing, failed
	case len(answers) == 0:
		return nil, missing, fmt.Errorf("no replica of Limiter %s answers", answer.Limiter)
	}
	return answers, missing, nil
}

// RefuseRedirects is an http.Client.CheckRedirect that returns a redirection as the response: following it would send the credentials elsewhere.
func RefuseRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Decode decodes the response of an admin endpoint into out, or a problem into an error.
func Decode(response *http.Response, out any) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the response of the admin endpoint: %w", err)
	}
	return decode(response.StatusCode, body, out)
}

func decode(status int, body []byte, out any) error {
	if status == http.StatusOK {
		if err := json.Unmarshal(body, out); err != nil {
			return fmt.Errorf("read the response of the admin endpoint: %w", err)
		}
		return nil
	}
	var problem reply.Problem
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("the admin endpoint answers %d %s", status, http.StatusText(status))
	}
	err := errors.New(escaped(problem.Detail))
	if status == http.StatusBadRequest {
		return cli.UsageError(err)
	}
	return err
}

// escaped returns text, quoted if it could control the terminal: a limiter can be compromised.
func escaped(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
