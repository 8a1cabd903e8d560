package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/decisionlog"
)

func logsCommand(limiters Limiters) *cobra.Command {
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
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return followDenials(cmd.Context(), limiters, filter, output, cli.StreamsOf(cmd))
		},
	}
	flags := cmd.Flags()
	limiters.AddFlags(cmd)
	flags.StringVarP(&output, "output", "o", explain.Table, "output format: table, or json with one object per line")
	flags.StringVar(&filter.Policy, "policy", "", "only denials by this policy, as namespace/name or _cluster/name")
	flags.StringVar(&filter.Identifier, "identifier", "", "only denials of this identifier, as it is printed")
	flags.StringVar(&filter.Endpoint, "endpoint", "", "only denials at this endpoint: check, auth, rls, ext_authz or throttle")
	cli.CompleteFlags(cmd, map[string]cli.Values{
		"policy": limiters.Policies, "identifier": loggedIdentifiers(limiters), "endpoint": cli.Fixed("check", "auth", "rls", "ext_authz", "throttle"),
		"output": cli.Fixed(explain.Table, explain.JSON),
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
func followDenials(ctx context.Context, limiters Limiters, filter decisionlog.Filter, output string, s cli.Streams) error {
	if output != explain.Table && output != explain.JSON {
		return cli.UsageError(fmt.Errorf("--output %q is invalid: must be %s or %s", output, explain.Table, explain.JSON))
	}
	query := url.Values{}
	for name, value := range map[string]string{"policy": filter.Policy, "identifier": filter.Identifier, "endpoint": filter.Endpoint} {
		if value != "" {
			query.Set(name, value)
		}
	}
	err := stream(ctx, limiters, "/admin/v1/denials?"+query.Encode(), func(text []byte) error {
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
func (l *denialLine) show(output string, s cli.Streams) error {
	replica := ""
	if l.Replica != "" {
		replica = " of replica " + l.Replica
	}
	switch {
	case l.Error != "" && l.Replica == "":
		return errors.New(l.Error)
	case l.Error != "":
		terminal.Printf(s.Err, "replica %s is not followed: %s\n", l.Replica, l.Error)
	case l.Following:
		terminal.Printf(s.Err, "following replica %s\n", l.Replica)
	}
	if l.Dropped > 0 {
		terminal.Printf(s.Err, "%s%s not shown, because there are too many\n", cli.Count(int(l.Dropped), "denial", "denials"), replica)
	}
	if l.Denial == nil {
		return nil
	}
	return printDenial(s.Out, output, l.Denial, l.Replica)
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
	_, err := terminal.Printf(w, "%s  %s  %s  %s  limit %d  %s  %s %s\n", r.Time.Format("15:04:05.000"), r.Policy, explain.Printable(r.Identifier), result,
		r.Limit, r.Source, r.Endpoint, request)
	return err
}
