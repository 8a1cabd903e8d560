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
		Use:   "logs --admin ADDRESS",
		Short: "Follow the denials of a limiter",
		Long: `Print the denials of a limiter as they happen, until Ctrl-C: at most 1000 per second. Denials that a Shadow policy would have
made are included. The limiter needs no decision log for this.`,
		Example: "  weir logs --admin unix:/run/weir/admin.sock\n" +
			"  weir logs --policy shop/tenant-free --identifier acme -o json --admin unix:/run/weir/admin.sock",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return followDenials(cmd.Context(), &endpoint, filter, output, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
		},
	}
	flags := cmd.Flags()
	endpoint.addAdmin(flags, "; required")
	flags.StringVarP(&output, "output", "o", explain.Table, "output format: table, or json with one object per line")
	flags.StringVar(&filter.Policy, "policy", "", "only denials by this policy, as namespace/name or cluster/name")
	flags.StringVar(&filter.Identifier, "identifier", "", "only denials of this identifier, as it is printed")
	flags.StringVar(&filter.Endpoint, "endpoint", "", "only denials at this endpoint: check, auth, rls, ext_authz or throttle")
	return cmd
}

// followDenials prints denials until ctx is done or the limiter ends.
func followDenials(ctx context.Context, endpoint *adminClientFlags, filter decisionlog.Filter, output string, s streams) error {
	if output != explain.Table && output != explain.JSON {
		return usageError(fmt.Errorf("--output %q is invalid: must be %s or %s", output, explain.Table, explain.JSON))
	}
	if err := endpoint.validate(); err != nil {
		return err
	}
	query := url.Values{}
	for name, value := range map[string]string{"policy": filter.Policy, "identifier": filter.Identifier, "endpoint": filter.Endpoint} {
		if value != "" {
			query.Set(name, value)
		}
	}
	err := endpoint.stream(ctx, "/admin/v1/denials?"+query.Encode(), func(text []byte) error {
		var line admin.DenialLine
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("read the response of the admin endpoint: %w", err)
		}
		if line.Dropped > 0 {
			fmt.Fprintf(s.err, "%s not shown, because there are too many\n", count(int(line.Dropped), "denial", "denials"))
		}
		if line.Denial == nil {
			return nil
		}
		return printDenial(s.out, output, line.Denial)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the user has ended the command
	}
	return err
}

func printDenial(w io.Writer, output string, r *decisionlog.Record) error {
	if output == explain.JSON {
		return json.NewEncoder(w).Encode(r)
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
	_, err := fmt.Fprintf(w, "%s  %s  %s  %s  limit %d  %s  %s %s\n", r.Time.Format("15:04:05.000"), r.Policy, explain.Printable(r.Identifier), result,
		r.Limit, r.Source, r.Endpoint, request)
	return err
}

// stream calls a path that streams lines, and calls read for each, until the stream ends.
func (f *adminClientFlags) stream(ctx context.Context, path string, read func(line []byte) error) error {
	response, closeConnection, err := f.request(ctx, http.MethodGet, path, nil) //nolint:bodyclose // closeConnection closes it
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
	return errors.New("the limiter has ended the stream")
}
