package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are what the flags say.
type settings struct {
	rounds     int
	slice      time.Duration
	keys       int
	callers    []int
	window     time.Duration
	only       *regexp.Regexp
	parts      []string
	cpuProfile string
	strict     bool
}

// The parts of the measurement.
const (
	partThroughput  = "throughput"
	partAllocations = "allocations"
	partMemory      = "memory"
)

const help = `bench measures what Weir's store in Redis can do, beside what else decides rate limits in Redis. It starts a redis-server
of its own. It prints tables, and whether the bars that Weir is held to are met.

  go run -C hack/bench .                                    all of it, some minutes
  go run -C hack/bench . -parts throughput -only 'weir/Token|zset/go-redis' -callers 64 -rounds 3 -slice 500ms
                                                            a quick look

Flags:
`

func parse(args []string, output io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() {
		fmt.Fprint(output, help)
		flags.PrintDefaults()
	}
	flags.IntVar(&s.rounds, "rounds", 5, "number of `rounds`; every contender has a turn in each")
	flags.DurationVar(&s.slice, "slice", time.Second, "`length` of a turn")
	flags.IntVar(&s.keys, "keys", 500_000, "`number` of keys that a contender is asked about at random")
	callers := flags.String("callers", "1,64,512", "`list` of numbers of concurrent callers")
	flags.DurationVar(&s.window, "window", time.Minute, "`length` of the window that admits 100 units; counters live about as long")
	only := flags.String("only", "", "measure only the contenders whose names match this `regexp`")
	parts := flags.String("parts", strings.Join(allParts(), ","), "`list` of what to measure")
	flags.StringVar(&s.cpuProfile, "cpuprofile", "", "write a processor profile of Weir's turns to this `file`")
	flags.BoolVar(&s.strict, "strict", false, "fail unless every bar is measured and met")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var errCallers, errOnly, errParts error
	s.callers, errCallers = parseCallers(*callers)
	s.parts, errParts = parseParts(*parts)
	if s.only, errOnly = regexp.Compile(*only); errOnly != nil {
		errOnly = fmt.Errorf("-only: %w", errOnly)
	}
	return s, errors.Join(errCallers, errParts, errOnly, s.check())
}

func allParts() []string { return []string{partThroughput, partAllocations, partMemory} }

func parseParts(list string) ([]string, error) {
	parts := strings.Split(list, ",")
	for _, part := range parts {
		if !slices.Contains(allParts(), part) {
			return nil, fmt.Errorf("-parts: %q is none of %s", part, strings.Join(allParts(), ", "))
		}
	}
	return parts, nil
}

func parseCallers(list string) ([]int, error) {
	var callers []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-callers: %q is not a number above 0", word)
		}
		callers = append(callers, n)
	}
	return callers, nil
}

func (s settings) check() error {
	switch {
	case s.rounds < 1:
		return fmt.Errorf("-rounds: %d is not above 0", s.rounds)
	case s.slice <= 0:
		return fmt.Errorf("-slice: %v is not above 0", s.slice)
	case s.keys < 1 || s.keys > maxKeys:
		return fmt.Errorf("-keys: %d is outside 1 … %d", s.keys, maxKeys)
	}
	return nil
}

func (s settings) measures(part string) bool { return slices.Contains(s.parts, part) }
