package files

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/terminal"
)

// LintCommand validates policy files.
func LintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILES…",
		Short: "Validate policy files, without a cluster",
		Long: `Validate policy files with the checks of the API server and the operator, without a cluster.

FILES are YAML files, directories (their *.yaml and *.yml files, including subdirectories) and "-" for standard input.
Documents of kinds other than Weir's are skipped. Each problem is printed as one line on standard output, with file,
line, policy and field, up to 1000 problems. Some checks run only after earlier ones pass: run lint again after a fix. Warnings about valid
policies that are costly or have no effect, for example because another policy in FILES always takes precedence, or that
exceed the default policy budget of a Limiter, are printed on standard error. A summary follows.

Exit status: 0 if there are no problems, 1 if there are problems, 2 if the command line is invalid or a file cannot be
read. Warnings do not change the exit status.`,
		Example: `  weir lint policies/
  weir lint tenant.yaml public.yaml
  kubectl kustomize overlays/production | weir lint -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(errors.New("missing argument: name files or directories, or - for standard input; see weir lint --help"))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error {
			return lint(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		}),
	}
}

func lint(stdin io.Reader, stdout, stderr io.Writer, paths []string) error {
	schema, err := apischema.New()
	if err != nil {
		return err
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	result, err := loader.Load(stdin, paths...)
	if err != nil {
		return cli.UsageError(err)
	}
	printProblems(stdout, "", result.Problems)
	warnings := result.Warnings()
	printProblems(stderr, "warning: ", warnings)
	terminal.Println(stderr, summary(result, len(warnings)))
	if len(result.Problems) > 0 {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

// maxPrinted is the number of problems, and of warnings, that are printed. Their number is in the summary.
const maxPrinted = 1000

func printProblems(w io.Writer, prefix string, problems []policyfile.Problem) {
	for _, problem := range problems[:min(len(problems), maxPrinted)] {
		terminal.Println(w, prefix+problem.String())
	}
	if more := len(problems) - maxPrinted; more > 0 {
		terminal.Println(w, fmt.Sprintf("%sand %d more", prefix, more))
	}
}

// maxKinds is the number of other kinds that the summary lists, and maxKind the maximum size of one in bytes.
const (
	maxKinds = 20
	maxKind  = 63
)

// summary returns, for example, "3 policies, 1 Limiter, 1 problem, 2 warnings; skipped: 1 Kustomization, 2 Namespace".
func summary(result policyfile.Result, warnings int) string {
	kinds, limiters := map[string]int{}, 0
	for _, skipped := range result.Skipped {
		if skipped.APIVersion == v1alpha1.GroupVersion.String() { // a Limiter, which is validated but not used
			limiters++
			continue
		}
		kinds[skipped.Kind]++
	}
	text := cli.Count(result.Policies, "policy", "policies")
	if limiters > 0 {
		text += ", " + cli.Count(limiters, "Limiter", "Limiters")
	}
	text += ", " + cli.Count(len(result.Problems), "problem", "problems")
	if warnings > 0 {
		text += ", " + cli.Count(warnings, "warning", "warnings")
	}
	if len(kinds) == 0 {
		return text
	}
	var others []string
	sorted := slices.Sorted(maps.Keys(kinds))
	for _, kind := range sorted[:min(len(sorted), maxKinds)] {
		others = append(others, fmt.Sprintf("%d %s", kinds[kind], terminal.Shorten(kind, maxKind)))
	}
	if more := len(sorted) - maxKinds; more > 0 {
		others = append(others, cli.Count(more, "other kind", "other kinds"))
	}
	return text + "; skipped: " + strings.Join(others, ", ")
}
