// Command bench compares the Redis store of Weir with other implementations of rate limits in Redis.
//
//	go run -C hack/bench .
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/weir-dev/weir/hack/bench/report"
	"github.com/weir-dev/weir/hack/command"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	limitUnits = 100
	maxKeys    = 9_999_999 // names have seven digits
)

func main() {
	command.Main("bench", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	contenders := selectContenders(contenders(), s.only)
	if len(contenders) == 0 {
		return fmt.Errorf("-only %s matches no contender", s.only)
	}
	var conditions strings.Builder
	m, err := measure(ctx, contenders, s, io.MultiWriter(stdout, &conditions), newProgress(stderr))
	if err != nil {
		return err
	}
	targets := m.targets()
	parts := []string{strings.ReplaceAll(strings.TrimSpace(conditions.String()), "\n", " ") + "\n"}
	for _, t := range append(m.tables(contenders, s.callers), targetTable(targets)) {
		if err := t.Write(stdout); err != nil {
			return err
		}
		parts = append(parts, t.Markdown())
	}
	if s.page != "" && s.isWhole() {
		if err := report.WritePart(s.page, "store", strings.Join(parts, "\n")); err != nil {
			return err
		}
	}
	fmt.Fprint(stdout, m.throughput.denials())
	if n := countNotMet(targets); s.strict && n > 0 {
		return fmt.Errorf("%d of %d targets are not met or not measured", n, len(targets))
	}
	return nil
}

// measure runs the parts that s selects.
func measure(ctx context.Context, contenders []contender, s settings, description io.Writer, progress func(string, ...any)) (m measured, err error) {
	server, err := fixture.StartRedis(ctx)
	if err != nil {
		return measured{}, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	err = connected(server, func(c *clients) (err error) {
		if err := describe(ctx, c, s, description); err != nil {
			return err
		}
		if s.measures(partAllocations) { // first, before Redis has many keys
			progress("allocations")
			if m.allocations, err = allocations(ctx, c, contenders, workload{limit: limitUnits, window: s.window}, min(countedDecisions, s.keys)); err != nil {
				return err
			}
		}
		if s.measures(partThroughput) {
			m.throughput, err = measureThroughput(ctx, c, contenders, s, progress)
		}
		return err
	})
	if err == nil && s.measures(partMemory) {
		m.memory, err = measureMemory(ctx, contenders, progress)
	}
	progress("")
	return m, err
}

// describe writes how the measurement works.
func describe(ctx context.Context, c *clients, s settings, w io.Writer) error {
	fields, err := c.info(ctx, "server")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `%d CPUs, shared by this client and its redis-server %s, which writes nothing to disk; %s, %s/%s.
%d rounds after a warm-up round. In each round, with each number of callers, every contender has a turn of %v; each round
starts with another contender. The limit is %d per %v. Each contender has its own %d keys, used at random; they are kept
for the next round until they expire. go-redis and Weir have the same number of connections, %d per CPU. %s
writes batches of %d.
`,
		runtime.GOMAXPROCS(0), fields["redis_version"], runtime.Version(), runtime.GOOS, runtime.GOARCH,
		s.rounds, s.slice, limitUnits, s.window, s.keys, poolPerProcessor, baselineSet, baselineBatch)
	return err
}

// newProgress returns a function that reports progress: on a terminal in one line that it overwrites, otherwise in lines.
func newProgress(w io.Writer) func(format string, args ...any) {
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
