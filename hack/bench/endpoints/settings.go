package main

import (
	"flag"
	"fmt"
	"io"
	"regexp"
	"time"
)

// bar is what part of its floor's throughput Envoy's endpoint has to make of known denials, in percent.
const bar = 60

// settings are what the flags say.
type settings struct {
	rounds      int
	slice       time.Duration
	keys        int
	callers     int
	connections int
	only        *regexp.Regexp
	weir        string
	strict      bool
}

func parse(args []string, output io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("endpoints", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.IntVar(&s.rounds, "rounds", 5, "number of `rounds`; every row has a turn in each")
	flags.DurationVar(&s.slice, "slice", time.Second, "`length` of a turn, 5s at most: known denials are forgotten after ten seconds")
	flags.IntVar(&s.keys, "keys", 100_000, "`number` of keys, 100000 at most: so many denials a limiter remembers")
	flags.IntVar(&s.callers, "callers", 64, "`number` of concurrent callers")
	flags.IntVar(&s.connections, "connections", 8, "`number` of gRPC connections")
	only := flags.String("only", "", "measure only the rows whose names match this `regexp`, such as ^RLS")
	flags.StringVar(&s.weir, "weir", "", "measure the weir at this `path` (default: build this tree's)")
	flags.BoolVar(&s.strict, "strict", false, "fail unless the bar is met")
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
	case s.rounds < 1:
		return fmt.Errorf("-rounds: %d is not above 0", s.rounds)
	case s.slice <= 0 || s.slice > 5*time.Second:
		return fmt.Errorf("-slice: %v is not above 0 and at most 5s", s.slice)
	case s.keys < 1 || s.keys > 100_000:
		return fmt.Errorf("-keys: %d is outside 1 … 100000", s.keys)
	case s.callers < 1:
		return fmt.Errorf("-callers: %d is not above 0", s.callers)
	case s.connections < 1:
		return fmt.Errorf("-connections: %d is not above 0", s.connections)
	}
	return nil
}
