package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
)

// lintCommand checks policy files as the API server and the operator would.
func lintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint FILES…",
		Short: "Check policy files as the API server and the operator would",
		Long: `Check policy files as the API server and the operator would, without either.

FILES are YAML files, directories (their *.yaml and *.yml, and those of the directories in them) and "-" for standard
input. Documents of other kinds are passed over. Every problem is one line on standard output, with file, line, policy
and field. What is costly or useless in policies that can be enforced, as one that never decides beside another of the
FILES, is warned of on standard error, and a summary follows.

Exit status: 0 no problems, 1 problems, 2 wrong usage or a file that cannot be read. Warnings do not change it.`,
		Example: `  weir lint policies/
  weir lint tenant.yaml public.yaml
  kubectl kustomize overlays/production | weir lint -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(errors.New("lint: name the files or directories to check, or - for standard input; see weir lint --help"))
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return lint(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(fmt.Errorf("lint: %w", err)) })
	return cmd
}

func lint(stdin io.Reader, stdout, stderr io.Writer, paths []string) error {
	loader, err := policyfile.NewLoader(compile.DefaultIdentity())
	if err != nil {
		return fmt.Errorf("lint: %w", err)
	}
	result, err := loader.Load(stdin, paths...)
	if err != nil {
		return usageError(fmt.Errorf("lint: %w", err))
	}
	for _, problem := range result.Problems {
		fmt.Fprintln(stdout, problem)
	}
	warnings := result.Warnings()
	for _, warning := range warnings {
		fmt.Fprintln(stderr, "warning:", warning)
	}
	fmt.Fprintln(stderr, summary(result, len(warnings)))
	if len(result.Problems) > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

// summary reads "3 policies, 1 problem, 2 warnings; passed over: 1 Kustomization, 2 Namespace".
func summary(result policyfile.Result, warnings int) string {
	text := count(result.Policies, "policy", "policies") + ", " + count(len(result.Problems), "problem", "problems")
	if warnings > 0 {
		text += ", " + count(warnings, "warning", "warnings")
	}
	if len(result.Skipped) == 0 {
		return text
	}
	kinds := map[string]int{}
	for _, skipped := range result.Skipped {
		kinds[skipped.Kind]++
	}
	var others []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		others = append(others, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	return text + "; passed over: " + strings.Join(others, ", ")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
