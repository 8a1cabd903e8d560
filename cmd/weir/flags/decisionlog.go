package flags

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

// DecisionLog configures the decision log.
type DecisionLog struct {
	Denials     int64
	Sample      int64
	Identifiers string
	Out         io.Writer // not a flag; stdout if nil
}

// Add adds the flags.
func (f *DecisionLog) Add(flags *pflag.FlagSet) {
	flags.Int64Var(&f.Denials, "decision-log-denials", 0,
		"number of denials per second that are written to stdout as JSON; more are dropped and counted; 0 disables this")
	flags.Int64Var(&f.Sample, "decision-log-sample", 0,
		"write one in so many of the decisions that are no denials to stdout as JSON; 1 writes all, 0 disables this")
	flags.StringVar(&f.Identifiers, "decision-log-identifiers", string(decisionlog.Counted),
		"identifiers in the decision log and in weir logs: Counted (as they are counted: API keys are hashed), Hashed (all are hashed with\n"+
			"--hash-key) or Omitted")
}

// IsOn reports whether decisions are written to stdout.
func (f *DecisionLog) IsOn() bool { return f.Denials > 0 || f.Sample > 0 }

// Open returns the log.
func (f *DecisionLog) Open(hashKey *limiter.HashKey, registry prometheus.Registerer) (*decisionlog.Log, error) {
	o := decisionlog.Options{
		DenialsPerSecond: f.Denials, SampleOneIn: f.Sample, Identifiers: cmp.Or(decisionlog.Identifiers(f.Identifiers), decisionlog.Counted), HashKey: hashKey,
	}
	if f.IsOn() {
		o.Handler = slog.NewJSONHandler(terminal.NewWriter(cmp.Or[io.Writer](f.Out, os.Stdout)), nil)
	}
	log, err := decisionlog.New(o, registry)
	if err != nil {
		return nil, fmt.Errorf("--decision-log-denials, --decision-log-sample, --decision-log-identifiers: %w", err)
	}
	return log, nil
}
