package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/weir/explain"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/decisionlog"
)

func logsCommand() *cobra.Command {
	var endpoint adminClientFlags
	var filter decisionlog.Filter
	var output string
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Follow the denials of a limiter",
		Long: `Print the denials of a limiter as they happen, until Ctrl-C: at most 1000 per second and replica. Denials that a Shadow policy
would have made are included. The limiter needs no decision log for this.

In a cluster, the denials of all replicas are printed, with the name of the replica. Replicas that start later, or again, are
followed within ten seconds. The command reports on standard error which replicas it follows, and which it does not, and why.`,
		Example: "  kubectl weir logs --policy shop/tenant-free --limiter weir-system/default\n" +
			"  weir logs --admin unix:/run/weir/admin.sock\n" +
			"  weir logs --policy shop/tenant-free --identifier acme -o json --admin unix:/run/weir/admin.sock",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return followDenials(cmd.Context(), &endpoint, filter, output, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
		},
	}
	flags := cmd.Flags()
	endpoint.add(flags)
	flags.StringVarP(&output, "output", "o", explain.Table, "output format: table, or json with one object per line")
	flags.StringVar(&filter.Policy, "policy", "", "only denials by this policy, as namespace/name or cluster/name")
	flags.StringVar(&filter.Identifier, "identifier", "", "only denials of this identifier, as it is printed")
	flags.StringVar(&filter.Endpoint, "endpoint", "", "only denials at this endpoint: check, auth, rls, ext_authz or throttle")
	completeEndpoint(cmd, &endpoint)
	completeFlags(cmd, map[string]values{
		"policy": endpoint.policies, "identifier": endpoint.loggedIdentifiers, "endpoint": fixed("check", "auth", "rls", "ext_authz", "throttle"),
		"output": fixed(explain.Table, explain.JSON),
	})
	return cmd
}

// denialLine is a line in a stream of denials. The fields after the first are set only by an operator.
type denialLine struct {
	admin.DenialLine

	Replica   string `json:"pod"`
	Following bool   `json:"following"`
	Error     string `json:"error"`
}

// printedDenial is a denial as JSON.
type printedDenial struct {
	*decisionlog.Record

	Replica string `json:"replica,omitempty"`
}

// followDenials prints denials until ctx is done or the limiter ends.
func followDenials(ctx context.Context, endpoint *adminClientFlags, filter decisionlog.Filter, output string, s streams) error {
	if output != explain.Table && output != explain.JSON {
		return usageError(fmt.Errorf("--output %q is invalid: must be %s or %s", output, explain.Table, explain.JSON))
	}
	query := url.Values{}
	for name, value := range map[string]string{"policy": filter.Policy, "identifier": filter.Identifier, "endpoint": filter.Endpoint} {
		if value != "" {
			query.Set(name, value)
		}
	}
	err := endpoint.stream(ctx, "/admin/v1/denials?"+query.Encode(), func(text []byte) error {
		var line denialLine
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("read the response of the admin endpoint: %w", err)
		}
		return line.show(output, s)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the user has ended the command
	}
	return err
}

// show prints the denial to standard output, and everything else to standard error. It returns an error if the stream ends.
func (l *denialLine) show(output string, s streams) error {
	of := ""
	if l.Replica != "" {
		of = " of replica " + l.Replica
	}
	switch {
	case l.Error != "" && l.Replica == "":
		return errors.New(l.Error)
	case l.Error != "":
		fmt.Fprintf(s.err, "replica %s is not followed: %s\n", l.Replica, l.Error)
	case l.Following:
		fmt.Fprintf(s.err, "following replica %s\n", l.Replica)
	}
	if l.Dropped > 0 {
		fmt.Fprintf(s.err, "%s%s not shown, because there are too many\n", count(int(l.Dropped), "denial", "denials"), of)
	}
	if l.Denial == nil {
		return nil
	}
	return printDenial(s.out, output, l.Denial, l.Replica)
}

func printDenial(w io.Writer, output string, r *decisionlog.Record, replica string) error {
	if output == explain.JSON {
		return json.NewEncoder(w).Encode(printedDenial{r, replica})
	}
	retry := "never"
	if r.RetryAfterMs > 0 {
		retry = "after " + (time.Duration(r.RetryAfterMs) * time.Millisecond).String()
	}
	result := "denied, retry " + retry
	if slices.Contains(r.ShadowDenied, r.Policy) {
		result = "would be denied (Shadow)"
	}
	request := strings.TrimSpace(explain.Printable(r.Method) + " " + explain.Printable(r.Path))
	if replica != "" {
		request += "  " + replica
	}
	_, err := fmt.Fprintf(w, "%s  %s  %s  %s  limit %d  %s  %s %s\n", r.Time.Format("15:04:05.000"), r.Policy, explain.Printable(r.Identifier), result,
		r.Limit, r.Source, r.Endpoint, request)
	return err
}

// stream calls a path that streams lines, and calls read for each, until the stream ends.
func (f *adminClientFlags) stream(ctx context.Context, path string, read func(line []byte) error) error {
	send, ended := f.request, errors.New("the limiter has ended the stream")
	if f.address == "" {
		send, ended = f.cluster.request, errors.New("the operator has ended the stream")
	}
	response, closeConnection, err := send(ctx, http.MethodGet, path, nil) //nolint:bodyclose // closeConnection closes it
	if err != nil {
		return err
	}
	defer closeConnection()
	if response.StatusCode != http.StatusOK {
		return decodeResponse(response, nil)
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
	return ended
}
