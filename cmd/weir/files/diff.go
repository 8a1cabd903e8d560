package files

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/policydiff"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/cmd/weir/replaycommand"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/terminal"
)

// clusterArgument is the argument that stands for the policies of a cluster.
const clusterArgument = "cluster"

// DiffCommand compares policies.
func DiffCommand() *cobra.Command {
	var f policydiff.Flags
	var replayed replaycommand.Comparison
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare policies: what a change enforces differently",
		Long: `Compare policies in files: what a change enforces differently, in the words of their YAML.

BEFORE and AFTER are files, directories (their *.yaml, *.yml and *.json files, including subdirectories), or "-" for standard input. kubectl
weir diff compares with the policies of a cluster. Without it, print them with kubectl, see the example; only the namespaces of the
other side are then compared, ClusterRateLimitPolicies if it has some, and Limiters on both sides. The identity table of a Limiter in the files applies, as in
weir lint.

` + policydiff.Effects + `

With --replay, the requests of an access log are decided under both, and each policy that differs has what it newly denies and
allows. weir replay --policies AFTER --policies-before BEFORE prints more.

Exit status, as with diff: 0 if the policies are the same, 1 if they differ, 2 if an error occurs or a policy in AFTER is invalid. Invalid
policies in BEFORE are reported, and left out.`,
		Example: `  weir diff policies/ edited/
  git worktree add ../before origin/main && weir diff ../before/policies policies -o markdown
  weir diff policies/ edited/ --replay access.log
  kubectl get ratelimitpolicies.weir.dev,clusterratelimitpolicies.weir.dev,limiters.weir.dev -A -o yaml | weir diff - policies/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 { //nolint:mnd // BEFORE and AFTER
				return cli.UsageError(fmt.Errorf("got %s: name the policies before and after the change; see weir diff --help",
					cli.Count(len(args), "argument", "arguments")))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error {
			return diff(cmd.Context(), cli.StreamsOf(cmd), &f, &replayed, args[0], args[1])
		}),
	}
	flags := cmd.Flags()
	f.Add(flags)
	flags.StringSliceVar(&replayed.Logs, "replay", nil, "access logs: also print what requests would notice of the change, as weir replay")
	flags.StringArrayVar(&replayed.Fields, "map", nil, "with --replay: what a field of the request comes from, as in weir replay")
	flags.StringVar(&replayed.Format, "format", "", "with --replay: format of the logs; detected by default")
	flags.StringVar(&replayed.Domain, "domain", "", "with --replay: domain of the requests, which is the namespace of their policies")
	return cmd
}

func diff(ctx context.Context, s cli.Streams, f *policydiff.Flags, replayed *replaycommand.Comparison, before, after string) error {
	outputs, err := f.Outputs(append([]string{before, after}, replayed.Logs...)...)
	switch {
	case err != nil:
		return cli.UsageError(err)
	case before == clusterArgument || after == clusterArgument:
		return cli.UsageError(errors.New("weir has no Kubernetes client: run kubectl weir diff FILES, or print the policies of the cluster with kubectl get " +
			"ratelimitpolicies.weir.dev,clusterratelimitpolicies.weir.dev -A -o yaml, and compare with -; see weir diff --help"))
	case before == after:
		return cli.UsageError(fmt.Errorf("both sides are %s: name two different ones", before))
	case len(replayed.Logs) > 0 && (before == "-" || after == "-"):
		return cli.UsageError(errors.New("--replay reads the policies of both sides again, and standard input can be read once: write it to a file"))
	case len(replayed.Logs) == 0 && (len(replayed.Fields) > 0 || replayed.Format != "" || replayed.Domain != ""):
		return cli.UsageError(errors.New("--map, --format and --domain have no effect without --replay"))
	}
	read := func(path string, mayBeInvalid bool) (*policyset.Set, error) {
		files, err := policyfile.Read(s.In, path)
		if err != nil {
			return nil, err
		}
		return f.Compile(s.Err, path, files, mayBeInvalid)
	}
	older, err := read(before, true)
	if err != nil {
		return cli.UsageError(err)
	}
	newer, err := read(after, false)
	if err != nil {
		return cli.UsageError(err)
	}
	d, err := policydiff.Compare(older, newer, scopesOf(before, after, older, newer))
	if err != nil {
		return err
	}
	d.Before, d.After = before, after
	if len(replayed.Logs) > 0 {
		replayed.Before, replayed.After, replayed.Limiter = before, after, f.Limiter()
		if err := addNotices(ctx, s, d, replayed); err != nil {
			return cli.UsageError(err) // status 1 means that the policies differ
		}
	}
	return policydiff.Print(s.Out, outputs, d)
}

// addNotices adds what the requests of a log would notice of each edited policy, and what a replay does not show of a Limiter.
func addNotices(ctx context.Context, s cli.Streams, d *policydiff.Diff, replayed *replaycommand.Comparison) error {
	for i := range d.Limiters {
		l := &d.Limiters[i]
		for _, setting := range []struct{ field, finds string }{{"spec.identity.ip", "the addresses of clients"}, {"spec.kubernetesThrottle", "exempt writes"}} {
			if slices.ContainsFunc(l.Changes, func(c policydiff.Change) bool { return strings.HasPrefix(c.Field, setting.field) }) {
				l.Notices = append(l.Notices, "a replay finds "+setting.finds+" with the later Limiter on both sides: it does not show what "+setting.field+" changes")
			}
		}
	}
	if len(d.Policies) == 0 {
		terminal.Println(s.Err, "weir diff: no policy differs, so the log is not replayed")
		return nil
	}
	decided, err := replayed.Run(ctx, s)
	if err != nil {
		return err
	}
	for i := range d.Policies {
		d.Policies[i].Notices = replaycommand.Notices(decided, d.Policies[i].Policy)
	}
	return nil
}

// scopesOf returns what is compared: with standard input, which can be a part of a cluster or a whole one, the scopes of the files on the other side, and the
// Limiters on both.
func scopesOf(before, after string, older, newer *policyset.Set) policydiff.Scope {
	scopes := map[string]bool(nil)
	switch {
	case before == "-":
		scopes = policydiff.Scopes(newer)
	case after == "-":
		scopes = policydiff.Scopes(older)
	default:
		all := func(string) bool { return true }
		return policydiff.Scope{Policies: all, Limiters: all}
	}
	has := func(set *policyset.Set, name string) bool {
		return slices.ContainsFunc(set.Limiters(), func(l policyfile.Limiter) bool { return l.Name == name })
	}
	return policydiff.Scope{
		Policies: func(scope string) bool { return scopes[scope] },
		Limiters: func(name string) bool { return has(older, name) && has(newer, name) },
	}
}
