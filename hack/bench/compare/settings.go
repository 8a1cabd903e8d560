package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"time"
)

const help = `compare builds two revisions of weir, gives both the same loads in turn, and prints a verdict for each figure.

  make bench-compare BASE=main                                          this tree against main, some minutes
  make bench-compare BASE=main BENCH='-only "64 in flight" -rounds 10'  one load
  make bench-compare BASE=v1.2.0 BENCH='-head main -raw /tmp/figures'   two commits; the figures as benchstat reads them

Exit codes of bin/bench-compare: 0 nothing is worse, 1 a figure is worse, 2 an error. make exits with 0 or 2.

Flags:
`

// settings are the values of the flags.
type settings struct {
	base, head string
	rounds     int
	slice      time.Duration
	keys       int
	only       *regexp.Regexp
	tolerance  float64 // percent
	raw        string
}

func parse(args []string, output io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() {
		fmt.Fprint(output, help)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.base, "base", "", "the `revision` to compare with")
	flags.StringVar(&s.head, "head", "", "the `revision` to compare; empty is this tree with its uncommitted changes")
	flags.IntVar(&s.rounds, "rounds", 6, "number of `rounds`, at least 5: with fewer, no difference is significant")
	flags.DurationVar(&s.slice, "slice", 1500*time.Millisecond, "`duration` of a turn")
	flags.IntVar(&s.keys, "keys", 100_000, "`number` of identifiers, used at random")
	only := flags.String("only", "", "use only the loads whose names match this `regexp`; the table has the names")
	flags.Float64Var(&s.tolerance, "tolerance", 3, "smaller differences, in `percent`, are not reported")
	flags.StringVar(&s.raw, "raw", "", "write the figures of all turns to `FILE`.base and FILE.head in the format of Go benchmarks, for benchstat")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return settings{}, fmt.Errorf("-only: %w", err)
	}
	return s, s.check()
}

func (s settings) check() error {
	switch {
	case s.base == "":
		return errors.New("no revision to compare with: make bench-compare BASE=main")
	case s.rounds < 5:
		return fmt.Errorf("-rounds: %d must be at least 5", s.rounds)
	case s.slice <= 0:
		return fmt.Errorf("-slice: %v must be positive", s.slice)
	case s.keys < 1:
		return fmt.Errorf("-keys: %d must be positive", s.keys)
	case s.tolerance < 0:
		return fmt.Errorf("-tolerance: %g must not be negative", s.tolerance)
	case len(selected(s.only)) == 0:
		return fmt.Errorf("-only %s matches no load", s.only)
	}
	return nil
}
