// Command bench measures what Weir's store in Redis can do, beside what else decides rate limits in Redis.
//
//	go run -C hack/bench .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/weir-dev/weir/test/fixture"
)

const (
	limitUnits = 100
	maxKeys    = 9_999_999 // names have room for seven digits
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	contenders := chosen(contenders(), s.only)
	if len(contenders) == 0 {
		return fmt.Errorf("-only %s: it matches no contender", s.only)
	}
	m, err := measure(ctx, contenders, s, stdout, progress(stderr))
	if err != nil {
		return err
	}
	bars := m.bars()
	for _, t := range append(m.tables(contenders, s.callers), barTable(bars)) {
		if err := t.Write(stdout); err != nil {
			return err
		}
	}
	fmt.Fprint(stdout, m.throughput.denials())
	if n := notMet(bars); s.strict && n > 0 {
		return fmt.Errorf("%d of %d bars are not met or not measured", n, len(bars))
	}
	return nil
}

// measure measures what s asks for, one part after the other.
func measure(ctx context.Context, contenders []contender, s settings, about io.Writer, say func(string, ...any)) (m measured, err error) {
	server, err := fixture.StartRedis(ctx)
	if err != nil {
		return measured{}, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	err = connected(server, func(c *clients) (err error) {
		if err := describe(ctx, c, s, about); err != nil {
			return err
		}
		if s.measures(partAllocations) { // first: of few keys, and before there are many
			say("allocations")
			if m.allocations, err = allocations(ctx, c, contenders, workload{limit: limitUnits, window: s.window}); err != nil {
				return err
			}
		}
		if s.measures(partThroughput) {
			m.throughput, err = measureThroughput(ctx, c, contenders, s, say)
		}
		return err
	})
	if err == nil && s.measures(partMemory) {
		m.memory, err = measureMemory(ctx, contenders, say)
	}
	say("")
	return m, err
}

// describe says what is done.
func describe(ctx context.Context, c *clients, s settings, w io.Writer) error {
	fields, err := c.info(ctx, "server")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `%d processors, shared by this client and its redis-server %s, which writes nothing to disk; %s, %s/%s.
%d rounds after one that is not counted. In each, with each number of callers, every contender has a turn of %v; the order
begins elsewhere in each round. A limit is %d per %v. Each contender has %d keys of its own, asked about at random; they
stay, until they expire, for the next round. go-redis has as many connections as Weir has, %d a processor. %s
writes batches of %d.
`,
		runtime.GOMAXPROCS(0), fields["redis_version"], runtime.Version(), runtime.GOOS, runtime.GOARCH,
		s.rounds, s.slice, limitUnits, s.window, s.keys, poolPerProcessor, floorSet, floorBatch)
	return err
}

// progress says on a terminal what is being done: one line, written anew. Elsewhere every saying is a line.
func progress(w io.Writer) func(format string, args ...any) {
	begin, end := "", "\n"
	if file, isFile := w.(*os.File); isFile {
		if stat, err := file.Stat(); err == nil && stat.Mode()&os.ModeCharDevice != 0 {
			begin, end = "\r\033[K", ""
		}
	}
	return func(format string, args ...any) {
		fmt.Fprintf(w, begin+format+end, args...)
	}
}
