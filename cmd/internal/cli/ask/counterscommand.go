package ask

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
)

func countersCommand(newLimiters func() Limiters) *cobra.Command {
	cmd := &cobra.Command{
		Use:                        "counters",
		Short:                      "Read and reset the counters of a limiter",
		Long:                       "Read the counters of a limiter: used and remaining units of an identifier or of a policy. Or reset those of an identifier.",
		Args:                       cli.NoUnknownCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(countersGetCommand(newLimiters()), countersListCommand(newLimiters()), countersResetCommand(newLimiters()))
	return cmd
}

// oneIdentifier accepts exactly one argument.
func oneIdentifier(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.UsageError(errors.New("name one identifier: a tenant, an address, an API key, or the hash of an API key"))
	}
	return nil
}

func countersGetCommand(limiters Limiters) *cobra.Command {
	var output, policy string
	cmd := &cobra.Command{
		Use:   "get IDENTIFIER",
		Short: "Print the counters of an identifier",
		Long: `Print the counters of an identifier, under one policy or all policies, that have used units. An API key is hashed by the
limiter, and printed as its hash, which can be given as hash:HASH. Without --policy, if a policy counts API keys, the
identifier can be one, and policies that would count it as it is are left out. While Redis is unavailable, policies that count
each endpoint separately are left out, too.`,
		Example: "  kubectl weir counters get acme\n" +
			"  weir counters get acme --admin unix:/run/weir/admin.sock\n" +
			"  weir counters get 203.0.113.7 --policy shop/public-ip --admin unix:/run/weir/admin.sock",
		Args: oneIdentifier,
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"identifier": args, "policy": {policy}}
			return listCounters(cmd.Context(), limiters, query, output, cli.StreamsOf(cmd))
		},
	}
	limiters.AddFlags(cmd)
	addListOutput(cmd, &output)
	cmd.Flags().StringVar(&policy, "policy", "", "policy, as namespace/name or _cluster/name; empty reads the counters of all policies")
	completePolicies(cmd, limiters)
	cmd.ValidArgsFunction = cli.OnlyFirst(cli.Completion(identifiers(limiters)))
	return cmd
}

func countersListCommand(limiters Limiters) *cobra.Command {
	var q admin.CounterQuery
	var output string
	cmd := &cobra.Command{
		Use:   "list --policy POLICY",
		Short: "Print the counters of a policy",
		Long: `Print a page of the counters of a policy, in no particular order. In Redis, the keys are found with SCAN, which checks all
keys of the server: a page can be empty before the last one.`,
		Example: "  kubectl weir counters list --policy shop/tenant-free --over\n" +
			"  weir counters list --policy shop/tenant-free --over --admin unix:/run/weir/admin.sock",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Policy == "" {
				return cli.UsageError(errors.New("--policy is required"))
			}
			query := url.Values{
				"policy": {q.Policy}, "prefix": {q.Prefix}, "over": {strconv.FormatBool(q.Over)}, "limit": {strconv.Itoa(q.Limit)}, "continue": {q.Continue},
			}
			return listCounters(cmd.Context(), limiters, query, output, cli.StreamsOf(cmd))
		},
	}
	flags := cmd.Flags()
	limiters.AddFlags(cmd)
	addListOutput(cmd, &output)
	flags.StringVar(&q.Policy, "policy", "", "policy, as namespace/name or _cluster/name; required")
	flags.StringVar(&q.Prefix, "identifier-prefix", "", "only identifiers that begin with this text")
	flags.BoolVar(&q.Over, "over", false, "only counters without remaining units")
	flags.IntVar(&q.Limit, "limit", 100, "number of counters from which on a page ends, 1 to 1000")
	flags.StringVar(&q.Continue, "continue", "", "print the page that begins where the previous page ended")
	completePolicies(cmd, limiters)
	return cmd
}

func listCounters(ctx context.Context, limiters Limiters, query url.Values, output string, s cli.Streams) error {
	if err := validateListOutput(output); err != nil {
		return err
	}
	answers, err := call[admin.CounterList](ctx, limiters, http.MethodGet, "/admin/v1/counters?"+query.Encode(), nil, s.Err)
	if err != nil {
		return err
	}
	list := answers[0].value
	if query.Get("identifier") != "" {
		list.Counters = mergeCounters(answers, func(l admin.CounterList) []admin.Counter { return l.Counters })
	} else if len(answers) > 1 && slices.ContainsFunc(list.Counters, func(c admin.Counter) bool { return c.Local }) {
		terminal.Printf(s.Err, "Redis is unavailable: the counters are those of replica %s only; counters get adds those of all replicas\n", answers[0].replica)
	}
	if printed, err := explain.PrintObject(s.Out, output, &list); printed || err != nil {
		return err
	}
	printSkipped(s, list.Skipped)
	printUnsearched(s, cmp.Or(answers[0].replica, limiters.String()), list.Unsearched)
	if list.Continue != "" {
		defer terminal.Printf(s.Err, "more counters: --continue %s\n", list.Continue)
	}
	return explain.PrintCounters(s.Out, output, list.Counters)
}

// printSkipped names the policies that the limiter has left out.
func printSkipped(s cli.Streams, policies []string) {
	if len(policies) > 0 {
		terminal.Printf(s.Err, "left out, because the identifier can be an API key: %s. Set --policy to one of them if it is not.\n", strings.Join(policies, ", "))
	}
}

// printUnsearched names the policies that the limiter at address could not search.
func printUnsearched(s cli.Streams, address string, u *admin.Unsearched) {
	if u != nil {
		terminal.Printf(s.Err, "%s did not find the counters of these policies, which count each endpoint separately: %s. "+
			"Repeat the command when Redis is available (%s).\n", address, strings.Join(u.Policies, ", "), u.Reason)
	}
}

func countersResetCommand(limiters Limiters) *cobra.Command {
	var request adminapi.ResetRequest
	var output string
	var others []string
	cmd := &cobra.Command{
		Use:   "reset IDENTIFIER (--policy POLICY | --all-policies) --reason REASON",
		Short: "Give an identifier its budget back",
		Long: `Reset the counters of an identifier: all units are available again. Print the counters as they were before.

With counters in Redis, all processes that share them forget their known denials of the identifier within a second. While
Redis is unavailable, each process decides on its own share: name the other processes with --also of weir. Each process resets the
counters in Redis when it is available again, before it reports what it has admitted meanwhile. The counters of policies that
count each endpoint separately cannot be found then: with --all-policies, the command names these policies, resets the others,
and exits with 1.

Each process logs the reset with the name of the caller and the reason. Without --dry-run, the command does not ask. In a cluster, all replicas are
reset, and an event on the policy records the user and the reason. If a replica does not confirm the reset, the command exits with 1.`,
		Example: "  kubectl weir counters reset acme --policy shop/tenant-free --reason 'INC-1234: import ran twice'\n" +
			"  weir counters reset acme --policy shop/tenant-free --reason 'INC-1234: import ran twice' --admin unix:/run/weir/admin.sock",
		Args: oneIdentifier,
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Identifier = args[0]
			return resetCounters(cmd.Context(), limiters, others, &request, output, cli.StreamsOf(cmd))
		},
	}
	flags := cmd.Flags()
	limiters.AddFlags(cmd)
	AddOutput(cmd, &output)
	flags.StringVar(&request.Policy, "policy", "", "policy, as namespace/name or _cluster/name")
	flags.BoolVar(&request.AllPolicies, "all-policies", false, "reset the counters of all policies")
	flags.StringVar(&request.Reason, "reason", "", "reason, which the limiter logs; required")
	flags.BoolVar(&request.DryRun, "dry-run", false, "print the counters, and reset nothing")
	if !limiters.Replicated() {
		flags.StringArrayVar(&others, "also", nil, "admin endpoint of another process that shares the counters; can be repeated")
	}
	completePolicies(cmd, limiters)
	cmd.ValidArgsFunction = cli.OnlyFirst(cli.Completion(identifiers(limiters)))
	return cmd
}

func resetCounters(
	ctx context.Context, limiters Limiters, others []string, request *adminapi.ResetRequest, output string, s cli.Streams,
) error {
	if err := ValidateOutput(output); err != nil {
		return err
	}
	if len(others) > 0 || limiters.Replicated() {
		request.ID = rand.Text() // the same for all
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answers, missing, err := callAll[admin.ResetResult](ctx, limiters, http.MethodPost, "/admin/v1/counters/reset", body, s.Err)
	if err != nil {
		return err
	}
	isPartial := false
	for i := range answers {
		printUnsearched(s, cmp.Or(answers[i].replica, limiters.String()), answers[i].value.Unsearched)
		isPartial = isPartial || answers[i].value.Unsearched != nil
	}
	result := answers[0].value
	result.Counters = mergeCounters(answers, func(r admin.ResetResult) []admin.Counter { return r.Counters })
	for _, other := range others {
		also, err := call[admin.ResetResult](ctx, withAddress(limiters, other), http.MethodPost, "/admin/v1/counters/reset", body, s.Err)
		if err != nil {
			return fmt.Errorf("reset at %s, but not at %s: %w", limiters, other, err)
		}
		printUnsearched(s, other, also[0].value.Unsearched)
		isPartial = isPartial || also[0].value.Unsearched != nil
	}
	if err := printReset(s, output, &result); err != nil {
		return err
	}
	if len(missing) > 0 && !request.DryRun {
		return fmt.Errorf("the counters of these replicas may not be reset: %s", strings.Join(missing, ", "))
	}
	if isPartial && !request.DryRun {
		return errors.New("not all counters were reset")
	}
	return nil
}

// withAddress returns the process at another address, with the same token.
func withAddress(limiters Limiters, address string) Limiters {
	process := &Process{Address: address}
	if like, ok := limiters.(*Process); ok {
		process.TokenFile = like.TokenFile
	}
	return process
}

// completePolicies completes the flag --policy.
func completePolicies(cmd *cobra.Command, limiters Limiters) {
	cli.CompleteFlags(cmd, map[string]cli.Values{"policy": limiters.Policies})
}

// printReset prints the counters that were reset.
func printReset(s cli.Streams, output string, result *admin.ResetResult) error {
	if printed, err := explain.PrintObject(s.Out, output, result); printed || err != nil {
		return err
	}
	if err := explain.PrintCounters(s.Out, output, result.Counters); err != nil {
		return err
	}
	printSkipped(s, result.Skipped)
	done := "reset"
	if result.DryRun {
		done = "would be reset"
	}
	terminal.Printf(s.Err, "%s %s\n", cli.Count(len(result.Counters), "counter with used units", "counters with used units"), done)
	return nil
}
