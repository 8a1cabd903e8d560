// Command endpoints measures the throughput of the endpoints of a limiter over the network, and compares each with a baseline: a server
// that only sends the same response.
//
//	go run -C hack/bench ./endpoints
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/weir-dev/weir/hack/bench/capacity"
	"github.com/weir-dev/weir/hack/bench/report"
	"github.com/weir-dev/weir/hack/command"
	"github.com/weir-dev/weir/test/fixture"
)

// serveBaseline is the argument with which this program runs as a baseline server.
const serveBaseline = "serve-baseline"

func main() {
	command.Main("endpoints", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 4 && args[0] == serveBaseline {
		return runBaseline(ctx, args[1], args[2], args[3])
	}
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	progress := func(format string, a ...any) { fmt.Fprintf(stderr, format+"\n", a...) }
	dir, err := os.MkdirTemp("", "weir-endpoints-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.weir == "" {
		if s.weir, err = fixture.BuildWeir(ctx, dir); err != nil {
			return err
		}
	}
	conditions, err := describe(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, conditions)
	var tables []report.Table
	var missed error
	if s.measures(partRows) {
		table, verdict, err := measureRows(ctx, s, progress)
		if table == nil {
			return err
		}
		fmt.Fprint(stdout, verdict)
		tables, missed = append(tables, *table), err
	}
	if s.measures(partCapacity) {
		result, err := measureCapacity(ctx, s, progress)
		if err != nil {
			return err
		}
		tables = append(tables, result.Tables()...)
	}
	for _, t := range tables {
		if err := t.Write(stdout); err != nil {
			return err
		}
	}
	return errors.Join(missed, writePage(s, conditions, tables))
}

// measureRows measures the rows. The error with a table means that a target was missed.
func measureRows(ctx context.Context, s settings, progress func(string, ...any)) (_ *report.Table, verdict string, err error) {
	w, err := newWorld(ctx, s)
	if err != nil {
		return nil, "", errors.Join(err, w.close())
	}
	defer func() { err = errors.Join(err, w.close()) }()
	measured, err := w.measure(ctx, s, progress)
	if err != nil {
		return nil, "", err
	}
	table := measured.table(w.contenders)
	share := 100 * measured.ratio(rlsKnown, rlsBaseline, sample.perSecond)
	verdict = fmt.Sprintf("\nTarget: %s at least %d %% of their baseline a second: %.0f %%. Load after: %s.\n", rlsKnown, target, share, load())
	if s.strict && !(share >= target) {
		return &table, verdict, fmt.Errorf("%s reach %.0f %% of their baseline, want at least %d %%", rlsKnown, share, target)
	}
	return &table, verdict, nil
}

// The turns of the latency under load.
const (
	curveTurns = 2
	curveSlice = 3 // as a multiple of a turn of a row
)

func measureCapacity(ctx context.Context, s settings, progress func(string, ...any)) (_ *capacity.Result, err error) {
	result, err := capacity.Measure(ctx, s.weir, capacity.Settings{
		Rounds: s.rounds, Slice: s.slice, CurveTurns: curveTurns, CurveSlice: curveSlice * s.slice, Progress: progress,
	})
	if err != nil || s.plot == "" {
		return result, err
	}
	file, err := os.Create(s.plot)
	if err != nil {
		return nil, err
	}
	return result, errors.Join(result.Curve.Plot(file), file.Close())
}

// describe returns the conditions of the measurement.
func describe(ctx context.Context, s settings) (string, error) {
	path, err := fixture.RedisServer(ctx)
	if err != nil {
		return "", err
	}
	version, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	_, redis, _ := strings.Cut(string(version), "v=")
	redis, _, _ = strings.Cut(redis, " ")
	return fmt.Sprintf(`%d processors (%s), shared by this client, the servers and redis-server %s; %s, %s/%s; load average before: %s.
%d rounds after one that is not counted, in each a turn of %v for every row; the order begins elsewhere in each round.
%d callers: over gRPC on %d connections, over HTTP/1.1 on one each. %d keys, requested at random.
`, runtime.GOMAXPROCS(0), cpuModel(), redis, runtime.Version(), runtime.GOOS, runtime.GOARCH, load(), s.rounds, s.slice, s.callers, s.connections, s.keys), nil
}

// cpuModel returns the name of the processor.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	_, after, found := strings.Cut(string(text), "model name")
	line, _, _ := strings.Cut(after, "\n")
	if err != nil || !found {
		return "unknown model"
	}
	return strings.TrimSpace(strings.TrimLeft(line, "\t :"))
}

// writePage writes the results to the page, unless only a part was measured.
func writePage(s settings, conditions string, tables []report.Table) error {
	if s.page == "" || !s.isWhole() {
		return nil
	}
	parts := []string{strings.ReplaceAll(strings.TrimSpace(conditions), "\n", " ") + "\n"}
	for _, t := range tables {
		parts = append(parts, t.Markdown())
	}
	if s.plot != "" {
		parts = append(parts, "![Latency and answers of a limiter under load]("+filepath.Base(s.plot)+")\n")
	}
	return report.WritePart(s.page, "endpoints", strings.Join(parts, "\n"))
}

// load returns the load averages of the machine over 1, 5 and 15 minutes.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
