package capacity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weir-dev/weir/hack/bench/report"
	"github.com/weir-dev/weir/hack/bench/rig"
)

// Settings say how long to measure.
type Settings struct {
	Rounds     int           // of the table of topologies
	Slice      time.Duration // of a turn in it
	CurveTurns int           // for each load of the curve
	CurveSlice time.Duration // of a turn of the curve
	Progress   func(format string, args ...any)

	offered []float64     // loads of the curve, in percent of the capacity; nil for all
	settle  time.Duration // between two loads of the curve; 0 is a second, after which a limiter is back to normal
}

// Result has all figures.
type Result struct {
	Clusters []clusterRow
	Curve    *Curve
}

// Measure measures the weir at binary.
func Measure(ctx context.Context, binary string, s Settings) (_ *Result, err error) {
	dir, err := os.MkdirTemp("", "weir-capacity-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	policies, err := rig.WritePolicies(dir)
	if err != nil {
		return nil, err
	}
	if s.settle == 0 {
		s.settle = time.Second
	}
	if s.offered == nil {
		s.offered = []float64{10, 25, 50, 75, 90, 100, 110, 125, 150, 200, 250, 300}
	}
	all := topologies()
	for _, t := range all {
		defer func() { err = errors.Join(err, t.stop()) }()
		if err := t.start(ctx, binary, policies); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	r := &Result{}
	if r.Clusters, err = measureClusters(ctx, all, s); err != nil {
		return nil, err
	}
	r.Curve, err = measureCurve(ctx, all[0], s)
	return r, err
}

// Tables returns the tables of the result.
func (r *Result) Tables() []report.Table {
	return []report.Table{clusterTable(r.Clusters), r.Curve.table()}
}
