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

// settings are the values of the flags.
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
	page       string
}

// isWhole reports whether everything is measured: only then the page is written.
func (s settings) isWhole() bool { return s.only.String() == "" && len(s.parts) == len(allParts()) }

// The parts of the measurement.
const (
	partThroughput  = "throughput"
	partAllocations = "allocations"
	partMemory      = "memory"
)

const help = `bench compares the Redis store of Weir with other implementations of rate limits in Redis. It starts its own
redis-server. It prints tables, and whether the targets of Weir are met.

  go run -C hack/bench .                                    everything, some minutes
  go run -C hack/bench . -parts throughput -only 'weir/Token|zset/go-redis' -callers 64 -rounds 3 -slice 500ms
                                                            a quick run

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
	flags.IntVar(&s.keys, "keys", 500_000, "`number` of keys per contender, used at random")
	callers := flags.String("callers", "1,64,512", "`list` of numbers of concurrent callers")
	flags.DurationVar(&s.window, "window", time.Minute, "`length` of the window, with a limit of 100; counters expire after about one window")
	only := flags.String("only", "", "measure only the contenders whose names match this `regexp`")
	parts := flags.String("parts", strings.Join(allParts(), ","), "`list` of what to measure")
	flags.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of the turns of Weir to this `file`")
	flags.StringVar(&s.page, "page", "", "write the results to this `file`, a page with marks, if everything is measured")
	flags.BoolVar(&s.strict, "strict", false, "fail unless every target is measured and met")
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
	return s, errors.Join(errCallers, errParts, errOnly, s.validate())
}

func allParts() []string { return []string{partThroughput, partAllocations, partMemory} }

func parseParts(list string) ([]string, error) {
	parts := strings.Split(list, ",")
	for _, part := range parts {
		if !slices.Contains(allParts(), part) {
			return nil, fmt.Errorf("-parts: %q must be one of %s", part, strings.Join(allParts(), ", "))
		}
	}
	return parts, nil
}

func parseCallers(list string) ([]int, error) {
	var callers []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-callers: %q must be a positive number", word)
		}
		callers = append(callers, n)
	}
	return callers, nil
}

func (s settings) validate() error {
	switch {
	case s.rounds < 1:
		return fmt.Errorf("-rounds: %d must be positive", s.rounds)
	case s.slice <= 0:
		return fmt.Errorf("-slice: %v must be positive", s.slice)
	case s.keys < 1 || s.keys > maxKeys:
		return fmt.Errorf("-keys: %d must be from 1 to %d", s.keys, maxKeys)
	}
	return nil
}

func (s settings) measures(part string) bool { return slices.Contains(s.parts, part) }
