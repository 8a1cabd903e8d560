package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/bypass"
)

// BypassesPath is the path of the bypasses.
const BypassesPath = "/admin/v1/bypasses"

// bypassFlags are the flags of weir bypass and weir block.
type bypassFlags struct {
	limiters Limiters
	request  adminapi.BypassRequest
	lasts    time.Duration
	output   string
}

func bypassCommand(newLimiters func() Limiters) *cobra.Command {
	return createCommand(newLimiters, false, &cobra.Command{
		Use:   "bypass POLICY (--identifier IDENTIFIER | --all) --reason REASON",
		Short: "Let an identifier pass a policy for some time",
		Long: `Let an identifier, or all identifiers, pass one policy for at most 24 hours. The policy is not changed, so that GitOps has
nothing to revert. It does not count the requests that pass: when the bypass expires, the identifier has the budget that it would
have without them. Other policies still apply.

All replicas of the Limiter let the identifier pass as soon as the command returns, also while Redis is unavailable. Replicas
that start later, and other processes that share the counters, learn it from Redis within a second. Each replica ends the bypass
by its own clock.

Each process logs the bypass with the name of the caller and the reason. In a cluster, an event on the policy records both. If a replica
does not confirm the bypass, the command exits with 1.`,
		Example: "  kubectl weir bypass shop/tenant-free --identifier acme --for 30m --reason 'INC-1234: import runs'\n" +
			"  kubectl weir bypass list\n" +
			"  kubectl weir bypass end bypass-k3m5vq2xpa",
	})
}

func blockCommand(newLimiters func() Limiters) *cobra.Command {
	return createCommand(newLimiters, true, &cobra.Command{
		Use:   "block POLICY (--identifier IDENTIFIER | --all) --reason REASON",
		Short: "Deny the requests of an identifier for some time",
		Long: `Deny the requests of an identifier, or of all identifiers, that one policy matches, for at most 24 hours. It is the opposite of a
bypass: the policy is not changed, and counts nothing of these requests. It denies them also if the identifier belongs to an
unlimited tier or has a bypass. The policy must have enforcement: Enforce.

Everything else is as with weir bypass: all replicas of the Limiter deny as soon as the command returns, also while Redis is
unavailable, each process logs the block with the name of the caller and the reason, and in a cluster an event on the policy
records both. Denied clients get a Retry-After at the end of the block. If a replica does not confirm the block, the command
exits with 1.`,
		Example: "  kubectl weir block shop/tenant-free --identifier acme --for 1h --reason 'INC-1234: scrapes all pages'\n" +
			"  kubectl weir block list\n" +
			"  kubectl weir block end block-k3m5vq2xpa",
	})
}

// createCommand completes a command that creates a bypass, or a block.
func createCommand(newLimiters func() Limiters, blocks bool, cmd *cobra.Command) *cobra.Command {
	f := bypassFlags{limiters: newLimiters(), request: adminapi.BypassRequest{Blocks: blocks}}
	cmd.Args, cmd.SuggestionsMinimumDistance = onePolicy, 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		f.request.Policy = args[0]
		return createBypass(cmd.Context(), &f, cli.StreamsOf(cmd))
	}
	everyone := "let all identifiers pass"
	if blocks {
		everyone = "block all identifiers"
	}
	flags := cmd.Flags()
	f.limiters.AddFlags(cmd)
	addListOutput(cmd, &f.output)
	flags.StringVar(&f.request.Identifier, "identifier", "", "identifier: a tenant, an address, an API key, or hash: and the hash of an API key")
	flags.BoolVar(&f.request.AllIdentifiers, "all", false, everyone)
	flags.DurationVar(&f.lasts, "for", 30*time.Minute, "time until the "+kindOf(blocks)+" expires, 1s to 24h")
	flags.StringVar(&f.request.Reason, "reason", "", "reason, which the limiter logs; required")
	cmd.AddCommand(bypassListCommand(newLimiters(), blocks), bypassEndCommand(newLimiters(), blocks))
	return cmd
}

// kindOf names what a command creates.
func kindOf(blocks bool) string { return (&bypass.Bypass{Blocks: blocks}).Kind() }

// kindsOf names several of them.
func kindsOf(blocks bool) string {
	if blocks {
		return "blocks"
	}
	return "bypasses"
}

// onePolicy accepts the name of one policy, or no argument.
func onePolicy(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && !strings.Contains(args[0], "/") {
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			return cli.NoUnknownCommand(cmd, args)
		}
		return cli.UsageError(fmt.Errorf("policy %q is invalid: must be namespace/name, or _cluster/name for a ClusterRateLimitPolicy", args[0]))
	}
	if len(args) > 1 {
		return cli.NoArguments(cmd, args[1:])
	}
	return nil
}

func bypassListCommand(limiters Limiters, blocks bool) *cobra.Command {
	var output string
	kind, kinds := kindOf(blocks), kindsOf(blocks)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the " + kinds + " that have not expired",
		Long: "Print the " + kinds + " that have not expired, also those that were ended, and how many replicas have them. kubectl weir status lists\n" +
			"the active " + kinds + " of all Limiters.",
		Example: "  kubectl weir " + kind + " list\n  weir " + kind + " list --admin unix:/run/weir/admin.sock",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := validateListOutput(output); err != nil {
				return err
			}
			s := cli.StreamsOf(cmd)
			answers, err := call[admin.BypassList](cmd.Context(), limiters, http.MethodGet, BypassesPath, nil, s.Err)
			if err != nil {
				return err
			}
			list := slices.DeleteFunc(mergeBypasses(answers), func(b ListedBypass) bool { return b.Blocks != blocks })
			return printBypasses(s, output, list, len(answers), kinds)
		},
	}
	limiters.AddFlags(cmd)
	addListOutput(cmd, &output)
	return cmd
}

func bypassEndCommand(limiters Limiters, blocks bool) *cobra.Command {
	var output string
	kind := kindOf(blocks)
	cmd := &cobra.Command{
		Use:     "end NAME",
		Short:   "End a " + kind + " before it expires",
		Long:    "End a " + kind + " before it expires. The policy counts the requests of its identifier again.",
		Example: "  kubectl weir " + kind + " end " + kind + "-k3m5vq2xpa\n  weir " + kind + " end " + kind + "-k3m5vq2xpa --admin unix:/run/weir/admin.sock",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError(fmt.Errorf("name one %[1]s, as in %[1]s list", kind))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validateListOutput(output); err != nil {
				return err
			}
			s := cli.StreamsOf(cmd)
			return changeBypass(cmd.Context(), limiters, BypassesPath+"/end", &adminapi.EndBypassRequest{Name: args[0]}, output, s)
		},
	}
	limiters.AddFlags(cmd)
	addListOutput(cmd, &output)
	return cmd
}

func createBypass(ctx context.Context, f *bypassFlags, s cli.Streams) error {
	if err := validateListOutput(f.output); err != nil {
		return err
	}
	if f.lasts%time.Second != 0 {
		return cli.UsageError(fmt.Errorf("--for %v is invalid: must be whole seconds", f.lasts))
	}
	f.request.Seconds = int64(f.lasts / time.Second)
	switch {
	case (f.request.Identifier == "") != f.request.AllIdentifiers:
		return cli.UsageError(errors.New("set --identifier, or --all for all identifiers"))
	case f.request.Seconds < 1 || f.lasts > bypass.MaxDuration:
		return cli.UsageError(fmt.Errorf("--for %v is invalid: must be from 1s to 24h. Change the policy if it must last longer", f.lasts))
	case strings.TrimSpace(f.request.Reason) == "":
		return cli.UsageError(errors.New("--reason is required: it is recorded with your name"))
	}
	return changeBypass(ctx, f.limiters, BypassesPath, &f.request, f.output, s)
}

// changeBypass sends a request to all replicas, and prints the bypass.
func changeBypass(ctx context.Context, limiters Limiters, path string, request any, output string, s cli.Streams) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answers, missing, err := callAll[bypass.Bypass](ctx, limiters, http.MethodPost, path, body, s.Err)
	if err != nil {
		return err
	}
	lists := make([]replicaAnswer[admin.BypassList], len(answers))
	for i := range answers {
		lists[i] = replicaAnswer[admin.BypassList]{answers[i].replica, admin.BypassList{Bypasses: []bypass.Bypass{answers[i].value}}}
	}
	if err := printBypasses(s, output, mergeBypasses(lists), len(answers)+len(missing), ""); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("these replicas do not confirm the change: %s. If Redis is available, they learn it within a second", strings.Join(missing, ", "))
	}
	return nil
}

// ListedBypass is a bypass as the replicas of a Limiter report it.
type ListedBypass struct {
	bypass.Bypass

	// Replicas is the number of replicas that have it.
	Replicas int `json:"replicas"`
}

// Bypasses returns the bypasses that the replicas of a Limiter report, merged.
func Bypasses(answer *proxyapi.Answer) ([]ListedBypass, error) {
	answers, _, err := split[admin.BypassList](answer, io.Discard)
	return mergeBypasses(answers), err
}

// mergeBypasses merges the lists of replicas. A bypass that one of them has ended ends on the others within a second.
func mergeBypasses(answers []replicaAnswer[admin.BypassList]) []ListedBypass {
	merged := []ListedBypass{}
	for _, answer := range answers {
		for _, b := range answer.value.Bypasses {
			index := slices.IndexFunc(merged, func(other ListedBypass) bool { return other.Name == b.Name })
			if index < 0 {
				merged = append(merged, ListedBypass{b, 1})
				continue
			}
			merged[index].Replicas++
			if b.EndedBy != "" {
				merged[index].Bypass = b
			}
		}
	}
	return merged
}

// printBypasses prints the bypasses that replicas report.
func printBypasses(s cli.Streams, output string, list []ListedBypass, replicas int, kinds string) error {
	if output == explain.Name {
		var names []string
		for i := range list {
			names = append(names, list[i].Name)
		}
		return explain.PrintNames(s.Out, names)
	}
	object := struct {
		Bypasses []ListedBypass `json:"bypasses"`
	}{list}
	if printed, err := explain.PrintObject(s.Out, output, object); printed || err != nil {
		return err
	}
	if len(list) == 0 {
		terminal.Println(s.Err, "no "+kinds)
		return nil
	}
	table := explain.NewTable(s.Out, "NAME", "POLICY", "IDENTIFIER", "STATE", "REPLICAS", "BY", "REASON")
	for i := range list {
		b := &list[i]
		table.Row(escaped(b.Name), escaped(b.Policy), bypassIdentifier(&b.Bypass), bypassState(&b.Bypass, time.Now()), fmt.Sprintf("%d/%d", b.Replicas, replicas),
			explain.Printable(b.CreatedBy), explain.Printable(b.Reason))
	}
	return table.Flush()
}

func bypassIdentifier(b *bypass.Bypass) string {
	if b.AllIdentifiers {
		return "(all)"
	}
	return explain.Printable(b.Identifier)
}

// bypassState returns, for example, 29m59s left.
func bypassState(b *bypass.Bypass, now time.Time) string {
	switch {
	case b.EndedBy != "":
		return "ended by " + explain.Printable(b.EndedBy)
	case !now.Before(b.ExpiresAt):
		return "expired"
	default:
		return b.ExpiresAt.Sub(now).Round(time.Second).String() + " left"
	}
}
