package policydiff

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/findings"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/terminal"
)

// Effects is the part of the help of a command that describes the effects.
const Effects = `Each policy that differs is

  stricter    the limit is lower, or applies to more requests
  looser      the limit is higher, or applies to fewer requests
  different   both of them, or requests are counted in another way
  the same    the decisions are the same, for example 24h in place of 1d

and new, gone or renamed, if it is not in both. A renamed policy keeps its counters only with spec.counterName. Limiters are compared in
the same way. Their fields that change neither decisions nor responses are left out, for example replicas and image. Formats are text, json and
markdown, a table for the comment of a merge request.`

// Flags are the flags of the commands that print a Diff.
type Flags struct {
	outputs []string
	limiter string
}

// Add adds the flags.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.outputs, "output", "o", []string{Text},
		"format, optionally with a file: text, json, markdown, for example markdown=comment.md; can be repeated")
	flags.StringVar(&f.limiter, "limiter", "", "Limiter in the files whose identity table applies, as NAMESPACE/NAME; needed if several differ")
}

// Among returns flags for another side, whose Limiters are given by name: --limiter applies only if it has the Limiter.
func (f *Flags) Among(limiters map[string]bool) *Flags {
	if limiters[f.limiter] {
		return &Flags{limiter: f.limiter}
	}
	return &Flags{}
}

// Limiter returns the name of the Limiter that the flags choose, "namespace/name"; "" without one.
func (f *Flags) Limiter() string { return f.limiter }

// Outputs returns what --output selects for a command that reads the inputs. An error is one of the command line.
func (f *Flags) Outputs(inputs ...string) ([]findings.Output, error) {
	return findings.ParseOutputs(f.outputs, Formats(), inputs...)
}

// Compile compiles one side. An invalid policy is an error, unless the side may have some: they are then reported to stderr and left out.
func (f *Flags) Compile(stderr io.Writer, name string, files []policyfile.File, mayBeInvalid bool) (*policyset.Set, error) {
	set, err := policyset.Compile(files, f.limiter)
	if err != nil {
		return nil, err
	}
	prefix := ""
	if mayBeInvalid {
		prefix = "left out: "
	}
	for i := range set.Problems {
		terminal.Println(stderr, prefix+set.Problems[i].String())
	}
	for i := range set.Warnings {
		terminal.Println(stderr, "warning: "+set.Warnings[i].String())
	}
	if len(set.Problems) > 0 && !mayBeInvalid {
		return nil, fmt.Errorf("%s in %s", cli.Count(len(set.Problems), "problem", "problems"), name)
	}
	return set, nil
}

// Print writes the outputs. The exit status is 1 if the policies differ, as with diff, and 2 after an error.
func Print(stdout io.Writer, outputs []findings.Output, diff *Diff) error {
	for _, o := range outputs {
		if err := o.To(stdout, func(w io.Writer) error { return diff.Write(w, o.Format) }); err != nil {
			return cli.UsageError(err)
		}
	}
	if len(diff.Policies)+len(diff.Limiters) > 0 {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}
