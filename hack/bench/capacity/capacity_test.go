package capacity

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

func TestMeasure_FillsTablesAndPlotFromRealServers(t *testing.T) {
	binary, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Measure(t.Context(), binary, Settings{
		Rounds: 1, Slice: 60 * time.Millisecond, CurveTurns: 1, CurveSlice: 60 * time.Millisecond, settle: time.Millisecond, offered: []float64{10, 50}, Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	tables := got.Tables()
	if rows := len(tables[0].Rows); rows != 1+6 {
		t.Errorf("%d rows, want a heading and three topologies with two loads", rows)
	}
	if rows := len(tables[1].Rows); rows != 1+2 {
		t.Errorf("%d rows, want a heading and two loads", rows)
	}
	for _, row := range tables[0].Rows[1:] {
		if row[0] == "one Redis" && row[3] != "1.00×" {
			t.Errorf("%q, want one Redis compared with itself", row)
		}
	}
	var plot bytes.Buffer
	if err := got.Curve.Plot(&plot); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "p50", "p99", "decided", "rejected", "% of the capacity"} {
		if !strings.Contains(plot.String(), want) {
			t.Errorf("the picture has no %q", want)
		}
	}
}

func TestPlot_LeavesOutTheLatencyOfALoadWithoutDecisions(t *testing.T) {
	curve := Curve{Capacity: 1000, Points: []Point{
		{Offered: 10, Decided: 10, P50: time.Millisecond, P99: 2 * time.Millisecond}, {Offered: 300, Rejected: 300},
	}}
	if err := curve.Plot(&bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}
