// Package simulatecommand is weir simulate.
package simulatecommand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/replay/report"
	"github.com/weir-dev/weir/internal/replay/report/chart"
	"github.com/weir-dev/weir/internal/replay/simulate"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// maxScenario is the size of the largest scenario, in bytes.
const maxScenario = 4 << 20

type simulateFlags struct {
	seed    int64
	output  string
	report  string
	picture string
}

// Command returns weir simulate.
func Command() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate SCENARIO…",
		Short: "Find out what policies do with invented clients, outages and replicas",
		Long: `Decide the requests of invented clients on a simulated clock, and print what the policies admit and deny.

SCENARIO is a YAML file with policies, clients, replicas and outages of Redis, or "-" for standard input. It can compare
up to three variants of the policies. Requests are decided with the code of a limiter. The counters are in memory, and
answer immediately. The same scenario and seed have the same result.

Weir's own scenarios are in config/scenarios.

Exit status: 0 if the scenarios are simulated, 2 if the command line or a scenario is invalid.`,
		Example: `  weir simulate config/scenarios/boundary-burst.yaml
  weir simulate --report report.html config/scenarios/*.yaml
  weir simulate --picture outage.svg config/scenarios/redis-unavailable.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(errors.New("missing argument: name a scenario, or - for standard input; see weir simulate --help"))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), cli.StreamsOf(cmd), args) }),
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.seed, "seed", 0, "seed of all random numbers; 0 is that of the scenario")
	flags.StringVarP(&f.output, "output", "o", "text", "output format: text or json")
	flags.StringVar(&f.report, "report", "", "file to write an HTML report to")
	flags.StringVar(&f.picture, "picture", "", "file to write the picture of the scenario to, as SVG; needs one scenario")
	cli.CompleteFlags(cmd, map[string]cli.Values{"output": cli.Fixed("text", "json")})
	return cmd
}

func (f *simulateFlags) run(ctx context.Context, streams cli.Streams, files []string) error {
	switch {
	case f.output != "text" && f.output != "json":
		return cli.UsageError(fmt.Errorf("--output %q is invalid: must be text or json", f.output))
	case f.seed < 0:
		return cli.UsageError(fmt.Errorf("--seed %d is invalid: must not be negative", f.seed))
	case f.picture != "" && len(files) > 1:
		return cli.UsageError(fmt.Errorf("--picture needs one scenario, and there are %d", len(files)))
	}
	for _, output := range []struct{ name, path string }{{"report", f.report}, {"picture", f.picture}} {
		if err := cli.CheckOutput(output.path, files...); err != nil {
			return cli.UsageError(fmt.Errorf("--%s: %w", output.name, err))
		}
	}
	compiler, err := compiler()
	if err != nil {
		return err
	}
	var results []*simulate.Result
	for _, file := range files {
		r, err := f.simulate(ctx, streams, file, compiler)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if err := f.write(results); err != nil {
		return err
	}
	if f.output == "json" {
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(results)
	}
	for i, r := range results {
		if i > 0 {
			terminal.Println(streams.Out)
		}
		if err := printText(streams.Out, r); err != nil {
			return err
		}
	}
	return nil
}

func (f *simulateFlags) simulate(ctx context.Context, streams cli.Streams, file string, compiler simulate.Compile) (*simulate.Result, error) {
	text, err := read(streams.In, file)
	if err != nil {
		return nil, cli.UsageError(policyfile.ReadError(file, err))
	}
	scenario, err := simulate.Parse(policyfile.File{Name: file, Content: text}, compiler)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	if f.seed != 0 {
		scenario.Seed = uint64(f.seed)
	}
	r, err := scenario.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// read reads a scenario.
func read(stdin io.Reader, file string) ([]byte, error) {
	in := stdin
	if file != "-" {
		opened, err := os.Open(filepath.Clean(file))
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	text, err := io.ReadAll(io.LimitReader(in, maxScenario+1))
	if err == nil && len(text) > maxScenario {
		err = fmt.Errorf("a scenario has at most %d bytes", maxScenario)
	}
	return text, err
}

// compiler compiles policies as weir serve does.
func compiler() (simulate.Compile, error) {
	schema, err := apischema.New()
	if err != nil {
		return nil, err
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(limiter.RandomHashKey()), schema)
	return func(policies []byte) (rules.Set, error) {
		compiled := loader.Compile([]policyfile.File{{Name: "policies", Content: policies}})
		if len(compiled.Problems) > 0 { // without the line, which is not that of the scenario
			p := compiled.Problems[0]
			return rules.Set{}, fmt.Errorf("policy %s: %s: %s", p.Policy, p.Field, p.Message)
		}
		if len(compiled.Rules.Rules) == 0 {
			return rules.Set{}, errors.New("no policy is enforced")
		}
		return compiled.Rules, nil
	}, nil
}

// write writes the report and the picture.
func (f *simulateFlags) write(results []*simulate.Result) error {
	if f.report != "" {
		if err := cli.WriteFile(f.report, func(w io.Writer) error { return report.WriteDocument(w, document(results)) }); err != nil {
			return err
		}
	}
	if f.picture == "" {
		return nil
	}
	return cli.WriteFile(f.picture, func(w io.Writer) error { return chart.Standalone(w, results[0].Picture()) })
}

// heads are the heads of the table of variants.
func heads() []string {
	return []string{
		"VARIANT", "LIMIT", "REQUESTS", "ADMITTED", "DENIED", "SHARE", "MOST IN WINDOW", "BOUND", "NEEDLESS DENIALS", "CLIENTS", "DENIED CLIENTS", "FAIRNESS",
		"REDIS CALLS",
	}
}

// rows are the rows of the table of variants.
func rows(r *simulate.Result) (rows [][]string) {
	for i := range r.Variants {
		v := &r.Variants[i]
		rows = append(rows, []string{
			v.Name, fmt.Sprintf("%d/%ds", v.Limit, v.WindowSeconds), chart.Count(v.Requests), chart.Count(v.Admitted), chart.Count(v.Denied),
			chart.Percent(v.Denied, v.Requests), chart.Count(v.MostInWindow), chart.Count(v.Bound), chart.Count(v.NeedlessDenials), chart.Count(v.Clients),
			chart.Count(v.DeniedClients), strconv.FormatFloat(v.Fairness, 'f', 2, 64), chart.Count(v.RedisCalls),
		})
	}
	return rows
}

func printText(out io.Writer, r *simulate.Result) error {
	terminal.Println(out, r.Title)
	if r.Description != "" {
		terminal.Println(out, r.Description)
	}
	terminal.Println(out)
	table := explain.NewTable(out, heads()...)
	for _, row := range rows(r) {
		table.Row(row...)
	}
	return table.Flush()
}

// document is the report.
func document(results []*simulate.Result) *report.Document {
	d := &report.Document{Title: results[0].Title, Generator: "weir simulate"}
	if len(results) > 1 {
		d.Title = fmt.Sprintf("Simulation of %d scenarios", len(results))
	}
	names := []string{
		"Variant", "Limit", "Requests", "Admitted", "Denied", "Share", "Most in a window", "Bound", "Needless denials", "Clients", "Denied clients", "Fairness",
		"Redis calls",
	}
	for _, r := range results {
		d.Sections = append(d.Sections, &report.Section{Title: r.Title, Text: r.Description, Picture: r.Picture(), Heads: names, Rows: rows(r)})
	}
	return d
}
