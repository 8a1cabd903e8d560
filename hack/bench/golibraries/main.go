// Command golibraries compares package go/weir with other libraries for Go programs: middleware of net/http that counts in memory, and decisions in
// Redis.
//
//	go run -C hack/bench ./golibraries
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"time"

	"github.com/weir-dev/weir/hack/bench/report"
	"github.com/weir-dev/weir/hack/command"
	"github.com/weir-dev/weir/test/fixture"
)

func main() {
	command.Main("golibraries", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

// settings are the values of the flags.
type settings struct {
	rounds int
	slice  time.Duration
	only   *regexp.Regexp
	parts  *regexp.Regexp
}

func parse(args []string, output io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("golibraries", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.IntVar(&s.rounds, "rounds", 5, "number of `rounds` after a warm-up round; every contender has a turn in each")
	flags.DurationVar(&s.slice, "slice", 500*time.Millisecond, "`length` of a turn")
	only := flags.String("only", "", "`pattern` of the contenders to compare")
	parts := flags.String("parts", "", "`pattern` of the titles of the tables to measure")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.rounds < 1 || s.slice < time.Millisecond || flags.NArg() > 0 {
		return s, fmt.Errorf("-rounds must be at least 1, -slice at least 1ms, and there must be no arguments, got %d, %v and %q", s.rounds, s.slice, flags.Args())
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return s, err
	}
	s.parts, err = regexp.Compile(*parts)
	return s, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	server, err := fixture.StartRedis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	fmt.Fprintf(stdout, "%d CPUs, shared with redis-server; %s; %d keys; %d interleaved rounds of %v. Median (lowest – highest) of the rounds;\n"+
		"nothing is denied. A time is that of a turn by its number of decisions.\n", runtime.GOMAXPROCS(0), runtime.Version(), keys, s.rounds, s.slice)
	for _, part := range []struct {
		title     string
		baseline  string
		callers   int
		contender []contender
	}{
		{"HTTP, counters in memory, 1 caller", baselineHTTP, 1, httpContenders()},
		{"HTTP, counters in memory, 2 callers", baselineHTTP, 2, httpContenders()},
		{"Decisions in Redis, 1 caller", baselineRedis, 1, redisContenders(server.URL())},
		{"Decisions in Redis, 64 callers", baselineRedis, 64, redisContenders(server.URL())},
	} {
		if !s.parts.MatchString(part.title) {
			continue
		}
		table, err := compare(ctx, part.title, part.baseline, part.contender, part.callers, s)
		if err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
		if err := table.Write(stdout); err != nil {
			return err
		}
	}
	return nil
}

// compare gives every contender a turn in each round. Each round starts with another one.
func compare(ctx context.Context, title, baseline string, all []contender, callers int, s settings) (report.Table, error) {
	var opened []*measured
	for _, c := range all {
		if !s.only.MatchString(c.name) {
			continue
		}
		each, closes, err := c.open()
		if err != nil {
			return report.Table{}, fmt.Errorf("%s: %w", c.name, err)
		}
		defer closes()
		opened = append(opened, &measured{name: c.name, decide: each})
	}
	for round := range s.rounds + 1 {
		for i := range opened {
			m := opened[(i+round)%len(opened)]
			if err := m.turn(ctx, callers, s.slice, round > 0); err != nil {
				return report.Table{}, fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return table(title, baseline, opened), nil
}

func table(title, baseline string, all []*measured) report.Table {
	var base []float64
	for _, m := range all {
		if m.name == baseline {
			base = m.micros
		}
	}
	rows := [][]string{{"", "µs", "allocations", "bytes", "× " + baseline}}
	for _, m := range all {
		low, high := span(m.micros)
		rows = append(rows, []string{
			m.name, fmt.Sprintf("%.2f (%.2f – %.2f)", report.Median(m.micros), low, high), report.Decimals(1, report.Median(m.allocations)),
			report.Decimals(0, report.Median(m.bytes)), report.Times(report.MedianRatio(m.micros, base)),
		})
	}
	return report.Table{Title: title, Rows: rows}
}
