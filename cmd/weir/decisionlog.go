package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/decisionlog"
)

// decisionLogFlags configure the decision log.
type decisionLogFlags struct {
	denials     int64
	sample      int64
	identifiers string
	out         io.Writer // not a flag; stdout if nil
}

func (f *decisionLogFlags) add(flags *pflag.FlagSet) {
	flags.Int64Var(&f.denials, "decision-log-denials", 0,
		"number of denials per second that are written to stdout as JSON; more are dropped and counted; 0 disables this")
	flags.Int64Var(&f.sample, "decision-log-sample", 0,
		"write one in so many of the decisions that are no denials to stdout as JSON; 1 writes all, 0 disables this")
	flags.StringVar(&f.identifiers, "decision-log-identifiers", string(decisionlog.Counted),
		"identifiers in the decision log and in weir logs: Counted (as they are counted: API keys are hashed), Hashed (all are hashed with\n"+
			"--hash-key) or Omitted")
}

// isOn reports whether decisions are written to stdout.
func (f *decisionLogFlags) isOn() bool { return f.denials > 0 || f.sample > 0 }

// open returns the log.
func (f *decisionLogFlags) open(hashKey *limiter.HashKey, registry prometheus.Registerer) (*decisionlog.Log, error) {
	o := decisionlog.Options{
		DenialsPerSecond: f.denials, SampleOneIn: f.sample, Identifiers: cmp.Or(decisionlog.Identifiers(f.identifiers), decisionlog.Counted), HashKey: hashKey,
	}
	if f.isOn() {
		o.Handler = slog.NewJSONHandler(terminal.NewWriter(cmp.Or[io.Writer](f.out, os.Stdout)), nil)
	}
	log, err := decisionlog.New(o, registry)
	if err != nil {
		return nil, fmt.Errorf("--decision-log-denials, --decision-log-sample, --decision-log-identifiers: %w", err)
	}
	return log, nil
}
