package files

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/policydiff"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/terminal"
)

// diffFlags are the flags of weir diff.
type diffFlags struct {
	outputs []string
	limiter string
}

// clusterArgument is the argument that stands for the policies of a cluster.
const clusterArgument = "cluster"

// DiffCommand compares policies.
func DiffCommand() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare policies: what a change enforces differently",
		Long: `Compare policies in files: what a change enforces differently, in the words of their YAML.

BEFORE and AFTER are files, directories (their *.yaml, *.yml and *.json files, including subdirectories), or "-" for standard input. For
the policies of a cluster, print them with kubectl, see the example; only the namespaces of the other side are then compared, and
ClusterRateLimitPolicies if it has some. The identity table of a Limiter in the files applies, as in weir lint.

Each policy that differs is

  stricter    the limit is lower, or applies to more requests
  looser      the limit is higher, or applies to fewer requests
  different   both of them, or requests are counted in another way
  the same    the decisions are the same, for example 24h in place of 1d

and new, gone or renamed, if it is not in both. A renamed policy keeps its counters only with spec.counterName. Formats are text, json and
markdown, a table for the comment of a merge request.

Exit status, as with diff: 0 if the policies are the same, 1 if they differ, 2 if an error occurs or a policy in AFTER is invalid. Invalid
policies in BEFORE are reported, and left out.`,
		Example: `  weir diff policies/ edited/
  git worktree add ../before origin/main && weir diff ../before/policies policies -o markdown
  kubectl get ratelimitpolicies.weir.dev,clusterratelimitpolicies.weir.dev -A -o yaml | weir diff - policies/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 { //nolint:mnd // BEFORE and AFTER
				return cli.UsageError(fmt.Errorf("got %s: name the policies before and after the change; see weir diff --help",
					cli.Count(len(args), "argument", "arguments")))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error { return f.run(cli.StreamsOf(cmd), args[0], args[1]) }),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.outputs, "output", "o", []string{policydiff.Text},
		"format, optionally with a file: text, json, markdown, for example markdown=comment.md; can be repeated")
	flags.StringVar(&f.limiter, "limiter", "", "Limiter in both sides whose identity table applies, as NAMESPACE/NAME; needed if several differ")
	return cmd
}

func (f *diffFlags) run(s cli.Streams, before, after string) error {
	outputs, err := parseOutputs(f.outputs, policydiff.Formats())
	switch {
	case err != nil:
		return cli.UsageError(err)
	case before == clusterArgument || after == clusterArgument:
		return cli.UsageError(errors.New("weir has no Kubernetes client: print the policies of the cluster with kubectl get " +
			"ratelimitpolicies.weir.dev,clusterratelimitpolicies.weir.dev -A -o yaml, and compare with -; see weir diff --help"))
	case before == after:
		return cli.UsageError(fmt.Errorf("both sides are %s: name two different ones", before))
	}
	older, err := f.read(s, before, true)
	if err != nil {
		return cli.UsageError(err)
	}
	newer, err := f.read(s, after, false)
	if err != nil {
		return cli.UsageError(err)
	}
	diff, err := policydiff.Compare(older, newer, scopesOf(before, after, older, newer))
	if err != nil {
		return err
	}
	diff.Before, diff.After = before, after
	for _, o := range outputs {
		if err := o.to(s.Out, func(w io.Writer) error { return diff.Write(w, o.format) }); err != nil {
			return cli.UsageError(err)
		}
	}
	if len(diff.Policies) > 0 {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

// scopesOf returns which scopes are compared: with standard input, which can be a whole cluster, those of the files on the other side.
func scopesOf(before, after string, older, newer *policyset.Set) func(string) bool {
	scopes := map[string]bool(nil)
	switch {
	case before == "-":
		scopes = policydiff.Scopes(newer)
	case after == "-":
		scopes = policydiff.Scopes(older)
	default:
		return func(string) bool { return true }
	}
	return func(scope string) bool { return scopes[scope] }
}

// read compiles one side. A policy that is invalid is an error, unless the side may have some: it is then left out.
func (f *diffFlags) read(s cli.Streams, path string, mayBeInvalid bool) (*policyset.Set, error) {
	files, err := policyfile.Read(s.In, path)
	if err != nil {
		return nil, err
	}
	set, err := policyset.Compile(files, f.limiter)
	if err != nil {
		return nil, err
	}
	for i := range set.Problems {
		terminal.Println(s.Err, map[bool]string{true: "left out: ", false: ""}[mayBeInvalid]+set.Problems[i].String())
	}
	for i := range set.Warnings {
		terminal.Println(s.Err, "warning: "+set.Warnings[i].String())
	}
	if len(set.Problems) > 0 && !mayBeInvalid {
		return nil, fmt.Errorf("%s in %s", cli.Count(len(set.Problems), "problem", "problems"), path)
	}
	return set, nil
}
