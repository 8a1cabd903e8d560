package main

import (
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// target is the minimum throughput of RLS with cached denials, in percent of the throughput of its baseline.
const target = 60

// settings are the values of the flags.
type settings struct {
	rounds      int
	slice       time.Duration
	keys        int
	callers     int
	connections int
	only        *regexp.Regexp
	weir        string
	strict      bool
	parts       []string
	page, plot  string
}

// The parts of the measurement.
const (
	partRows     = "rows"
	partCapacity = "capacity"
)

func (s settings) measures(part string) bool { return slices.Contains(s.parts, part) }

// isWhole reports whether everything is measured: only then the page is written.
func (s settings) isWhole() bool {
	return s.only.String() == "" && s.measures(partRows) && s.measures(partCapacity)
}

func parse(args []string, output io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("endpoints", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.IntVar(&s.rounds, "rounds", 5, "number of `rounds`; each round measures each row once")
	flags.DurationVar(&s.slice, "slice", time.Second, "`duration` of a turn, at most 5s: cached denials expire after ten seconds")
	flags.IntVar(&s.keys, "keys", 100_000, "`number` of keys, at most 100000, the size of the denial cache of a limiter")
	flags.IntVar(&s.callers, "callers", 64, "`number` of concurrent callers")
	flags.IntVar(&s.connections, "connections", 8, "`number` of gRPC connections")
	only := flags.String("only", "", "measure only the rows whose names match this `regexp`, such as ^RLS")
	flags.StringVar(&s.weir, "weir", "", "measure the weir binary at this `path`; empty builds it from this tree")
	parts := flags.String("parts", partRows+","+partCapacity, "`list` of what to measure")
	flags.StringVar(&s.page, "page", "", "write the results to this `file`, a page with marks, if everything is measured")
	flags.StringVar(&s.plot, "plot", "", "write a picture of the latency under load to this `file`, in SVG")
	flags.BoolVar(&s.strict, "strict", false, "fail if the target is missed")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	s.parts = strings.Split(*parts, ",")
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return settings{}, fmt.Errorf("-only: %w", err)
	}
	return s, s.check()
}

func (s settings) check() error {
	for _, part := range s.parts {
		if part != partRows && part != partCapacity {
			return fmt.Errorf("-parts: %q must be %s or %s", part, partRows, partCapacity)
		}
	}
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
