package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/cmd/internal/cli/findings"
	"github.com/weir-dev/weir/cmd/internal/cli/policytest"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/terminal"
)

// testFlags are the flags of weir test.
type testFlags struct {
	outputs []string
	run     string
	verbose bool
}

// TestCommand runs tests of policies.
func TestCommand() *cobra.Command {
	var f testFlags
	cmd := &cobra.Command{
		Use:   "test FILES…",
		Short: "Run tests of policies, without a cluster",
		Long: `Run tests of policies, without a cluster: requests at times, and what is expected of the decisions. They are decided as by weir
serve without Redis, with a clock that the test sets, so that a test of a day takes a moment.

FILES are files with tests, directories (their *.yaml, *.yml and *.json files, including subdirectories) and "-" for standard input.
Documents of other kinds than PolicyTest are skipped. For example:

  apiVersion: cli.weir.dev/v1alpha1
  kind: PolicyTest
  policies: [../tenant-free.yaml]   # relative to this file; default: its directory
  tests:
  - name: a tenant has 100 requests a day
    request: {domain: shop, path: /v1/search, headers: {x-tenant-id: acme, x-plan: free}}
    steps:
    - {repeat: 101, want: {allowed: 100, status: 429, decidedBy: tenant-free, retryAfter: 24h}}
    - {at: 24h, want: {allowed: 1, policies: [{name: tenant-free, identifier: acme, cost: 1, remaining: 0}]}}

Each test has new counters. docs/reference/policy-tests.md describes all fields. A failure has what was expected, what happened, and
the explanation of the request as weir explain prints it.

Exit status: 0 if all tests pass, 1 if a test fails or there are no tests, 2 if the command line, a test or a policy is invalid.`,
		Example: `  weir test policies/
  weir test policies/ --run 'a tenant has'
  weir test policies/ -o text -o junit=weir-test.xml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(errors.New("missing argument: name files or directories with tests, or - for standard input; see weir test --help"))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error { return f.test(cmd.Context(), cli.StreamsOf(cmd), args) }),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.outputs, "output", "o", []string{findings.Text},
		"format, optionally with a file: text, json, junit, for example junit=weir-test.xml; can be repeated")
	flags.StringVar(&f.run, "run", "", "run only tests whose names match this regular expression")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "list the tests that pass, too")
	return cmd
}

func (f *testFlags) test(ctx context.Context, s cli.Streams, paths []string) error {
	outputs, err := findings.ParseOutputs(f.outputs, []string{findings.Text, findings.JSON, findings.JUnit}, paths...)
	if err != nil {
		return cli.UsageError(err)
	}
	pattern, err := regexp.Compile(f.run)
	if err != nil {
		return cli.UsageError(fmt.Errorf("--run %q is invalid: %w", f.run, err))
	}
	files, err := policyfile.Read(s.In, paths...)
	if err != nil {
		return cli.UsageError(err)
	}
	suites, err := policytest.Find(files)
	if err != nil {
		return cli.UsageError(err)
	}
	results := []policytest.Result{}
	for _, suite := range suites {
		found, err := suite.Run(ctx, pattern.MatchString)
		if err != nil {
			return cli.UsageError(err)
		}
		results = append(results, found...)
	}
	if len(results) == 0 {
		if f.run != "" && len(suites) > 0 {
			return fmt.Errorf("no test has a name that matches --run %q in %s", f.run, strings.Join(paths, ", "))
		}
		return fmt.Errorf("there is no test in %s: a test is in a document with apiVersion: %s and kind: %s", strings.Join(paths, ", "),
			policytest.APIVersion, policytest.Kind)
	}
	for _, o := range outputs {
		if err := o.To(s.Out, func(w io.Writer) error { return f.write(w, o.Format, results) }); err != nil {
			return cli.UsageError(err)
		}
	}
	if slices.ContainsFunc(results, func(r policytest.Result) bool { return !r.Passed() }) {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

func (f *testFlags) write(w io.Writer, format string, results []policytest.Result) error {
	switch format {
	case findings.JSON:
		_, err := explain.PrintObject(w, explain.JSON, results)
		return err
	case findings.JUnit:
		return writeTestsAsJUnit(w, results)
	}
	failed := 0
	for i := range results {
		r := &results[i]
		place := fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Name)
		if r.Passed() {
			if f.verbose {
				terminal.Println(w, "ok    "+place)
			}
			continue
		}
		failed++
		terminal.Println(w, "FAIL  "+place)
		for _, failure := range r.Failures {
			terminal.Println(w, "      "+failure)
		}
		terminal.Println(w)
		for line := range strings.Lines(r.Explanation) {
			terminal.Println(w, strings.TrimRight("      "+line, " \n"))
		}
		terminal.Println(w)
	}
	_, err := terminal.Println(w, fmt.Sprintf("%s, %d failed", cli.Count(len(results), "test", "tests"), failed))
	return err
}

func writeTestsAsJUnit(w io.Writer, results []policytest.Result) error {
	var suites findings.Suites
	for i := range results {
		r := &results[i]
		c := findings.Case{Class: r.File, Name: r.Name, File: r.File, Line: r.Line, Time: findings.Seconds(r.Seconds)}
		if !r.Passed() {
			text := strings.Join(r.Failures, "\n")
			c.Failures = []findings.Failure{{Message: r.Failures[0], Type: "failure", Text: text + "\n\n" + r.Explanation}}
		}
		suites.Add(c)
	}
	return suites.Write(w)
}
