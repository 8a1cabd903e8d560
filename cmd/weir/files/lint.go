package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/findings"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/terminal"
)

// lintFlags are the flags of weir lint.
type lintFlags struct {
	outputs []string
	strict  bool
	limiter string
}

// LintCommand validates policy files.
func LintCommand() *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint FILES…",
		Short: "Validate policy files, without a cluster",
		Long: `Validate policy files with the checks of the API server and the operator, without a cluster.

FILES are YAML and JSON files, directories (their *.yaml, *.yml and *.json files, including subdirectories) and "-" for standard
input, for example the output of kustomize. Documents of kinds other than Weir's are skipped. In directories, symbolic links are
followed, also to directories, and names that begin with a dot are skipped. Each file is read once.

An error is why a policy is not enforced. A warning is about a valid policy that is costly, has no effect, for example because
another policy in FILES always takes precedence, or exceeds the policy budget. A note is worth knowing. In the format text, errors are
printed on standard output, warnings, notes and a summary on standard error, up to 1000 of each. Some checks run only after earlier
ones pass: run lint again after a fix.

If FILES have a Limiter, its identity table and its policy budget apply. If they have several that differ, --limiter selects one.

Each finding has the id of a rule. docs/reference/lint-rules.md describes them. An annotation of a policy suppresses the warnings and notes
of a rule, and has the reason:

  metadata:
    annotations:
      ignore.lint.weir.dev/window-boundary: "Bursts at midnight are harmless."

Exit status, in each format: 0 if there are no errors, 1 if there are errors, also if FILES have neither a policy nor a Limiter, 2 if
the command line is invalid or a file cannot be read or written. With --strict, the status is 1 if there are warnings, too.`,
		Example: `  weir lint policies/
  weir lint --strict tenant.yaml public.yaml
  weir lint policies/ -o github
  weir lint policies/ -o text -o sarif=weir.sarif -o junit=weir.xml
  kubectl kustomize overlays/production | weir lint -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(errors.New("missing argument: name files or directories, or - for standard input; see weir lint --help"))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error { return f.run(cli.StreamsOf(cmd), args) }),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.outputs, "output", "o", []string{findings.Text},
		"format, optionally with a file: "+strings.Join(findings.Formats(), ", ")+", for example sarif=weir.sarif; can be repeated")
	flags.BoolVar(&f.strict, "strict", false, "fail if there are warnings")
	flags.StringVar(&f.limiter, "limiter", "", "Limiter in FILES whose identity table and policy budget apply, as NAMESPACE/NAME; needed if several differ")
	return cmd
}

func (f *lintFlags) run(s cli.Streams, paths []string) error {
	outputs, err := findings.ParseOutputs(f.outputs, findings.Formats(), paths...)
	if err != nil {
		return cli.UsageError(err)
	}
	files, err := policyfile.Read(s.In, paths...)
	if err != nil {
		return cli.UsageError(err)
	}
	compiled, err := policyset.Compile(files, f.limiter)
	if err != nil {
		return cli.UsageError(fmt.Errorf("--limiter: %w", err))
	}
	report := f.report(compiled, paths, len(files))
	if err := write(s, outputs, report); err != nil {
		return cli.UsageError(err)
	}
	if report.Failed() {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

// write writes a report. In the format text, errors are on standard output, and the rest on standard error, as with all other formats the summary.
func write(s cli.Streams, outputs []findings.Output, report *findings.Report) error {
	printed := false
	for _, o := range outputs {
		switch {
		case o.File == "" && o.Format == findings.Text:
			report.WriteText(s.Out, s.Err)
			printed = true
		case o.File == "":
			if err := report.Write(s.Out, o.Format); err != nil {
				return err
			}
		default:
			if err := o.To(s.Out, func(w io.Writer) error { return report.Write(w, o.Format) }); err != nil {
				return err
			}
		}
	}
	if !printed {
		terminal.Println(s.Err, report.Summary)
	}
	return nil
}

// report returns what is found in the files.
func (f *lintFlags) report(c *policyset.Set, paths []string, files int) *findings.Report {
	found := c.Findings()
	report := &findings.Report{Version: cli.Version(), Strict: f.strict}
	add := func(p *policyfile.Problem, reason string) {
		rule, _ := lintrule.Find(p.Rule)
		report.Findings = append(report.Findings, findings.Finding{
			Rule: p.Rule, Severity: rule.Severity, File: p.File, Line: p.Line, Column: p.Column, Policy: p.Policy, Field: p.Field, Message: p.Message,
			URL: rule.URL(), Suppressed: reason,
		})
	}
	for _, list := range [][]policyfile.Problem{c.Problems, found.Warnings, c.Warnings} {
		for i := range list {
			add(&list[i], "")
		}
	}
	for i := range found.Suppressed {
		add(&found.Suppressed[i].Problem, found.Suppressed[i].Reason)
	}
	if len(c.Objects()) == 0 && c.Policies == 0 && len(c.Problems) == 0 {
		add(nothingToCheck(&c.Result, paths, files), "")
	}
	slices.SortStableFunc(report.Findings, func(a, b findings.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, o := range c.Objects() {
		report.Objects = append(report.Objects, findings.Object{Name: o.Name, File: o.File, Line: o.Line})
	}
	summarize(&c.Result, report)
	return report
}

// nothingToCheck is the finding about files without anything to validate: a check of them that passes would be misleading.
func nothingToCheck(result *policyfile.Result, paths []string, files int) *policyfile.Problem {
	message := "there is neither a policy nor a Limiter in " + cli.Count(files, "file", "files")
	if files == 0 {
		message = "there is no *.yaml, *.yml or *.json file"
	}
	if len(result.Skipped) > 0 {
		message += ", but " + listKinds(kindsOf(result))
	}
	return &policyfile.Problem{Rule: lintrule.NothingToCheck, File: paths[0], Line: 1, Message: message + "; name the files with the policies"}
}

// maxKinds is the number of other kinds that the summary lists, and maxKind the maximum size of one in bytes.
const (
	maxKinds = 20
	maxKind  = 63
)

// summarize sets the summary, for example, "3 policies, 1 Limiter, 1 problem, 2 warnings, 1 suppressed; skipped: 1 Kustomization, 2 Namespace".
func summarize(result *policyfile.Result, report *findings.Report) {
	limiters := 0
	for _, skipped := range result.Skipped {
		if skipped.APIVersion == v1alpha1.GroupVersion.String() { // a Limiter, which is validated but not used
			limiters++
		}
	}
	counts := map[lintrule.Severity]int{}
	suppressed := 0
	for i := range report.Findings {
		if report.Findings[i].Suppressed != "" {
			suppressed++
			continue
		}
		counts[report.Findings[i].Severity]++
	}
	parts := []string{cli.Count(result.Policies, "policy", "policies")}
	if limiters > 0 {
		parts = append(parts, cli.Count(limiters, "Limiter", "Limiters"))
	}
	parts = append(parts, cli.Count(counts[lintrule.Error], "problem", "problems"))
	for _, part := range []struct {
		n         int
		one, more string
	}{{counts[lintrule.Warning], "warning", "warnings"}, {counts[lintrule.Note], "note", "notes"}, {suppressed, "suppressed", "suppressed"}} {
		if part.n > 0 {
			parts = append(parts, cli.Count(part.n, part.one, part.more))
		}
	}
	text := strings.Join(parts, ", ")
	if kinds := kindsOf(result); len(kinds) > 0 {
		text += "; skipped: " + listKinds(kinds)
	}
	report.Summary = text
	report.Counts = map[string]int{
		"policies": result.Policies, "limiters": limiters, "errors": counts[lintrule.Error], "warnings": counts[lintrule.Warning],
		"notes": counts[lintrule.Note], "suppressed": suppressed, "skipped": len(result.Skipped) - limiters,
	}
}

// kindsOf returns how many documents of each other kind there are.
func kindsOf(result *policyfile.Result) map[string]int {
	kinds := map[string]int{}
	for _, skipped := range result.Skipped {
		if skipped.APIVersion != v1alpha1.GroupVersion.String() {
			kinds[skipped.Kind]++
		}
	}
	return kinds
}

// listKinds returns, for example, "1 Kustomization, 2 Namespace".
func listKinds(kinds map[string]int) string {
	var others []string
	sorted := slices.Sorted(maps.Keys(kinds))
	for _, kind := range sorted[:min(len(sorted), maxKinds)] {
		others = append(others, fmt.Sprintf("%d %s", kinds[kind], terminal.Shorten(kind, maxKind)))
	}
	if more := len(sorted) - maxKinds; more > 0 {
		others = append(others, cli.Count(more, "other kind", "other kinds"))
	}
	return strings.Join(others, ", ")
}
