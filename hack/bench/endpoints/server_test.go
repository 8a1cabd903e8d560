package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServer_ReadsTotalsFromMetrics(t *testing.T) {
	got, err := parseTotals([]byte(`# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
process_cpu_seconds_total 1.25
weir_decisions_total{axis="Tenant",policy="a/b c",result="denied",source="cache"} 3e+06
weir_decisions_total{axis="Tenant",policy="a/b c",result="allowed",source="redis"} 7
weir_decisions_totals{source="cache"} 9
`))
	if err != nil {
		t.Fatal(err)
	}
	want := totals{processor: 1250 * time.Millisecond, decisions: 3_000_007, cached: 3_000_000}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(totals{})); diff != "" {
		t.Error(diff)
	}
	if _, err := parseTotals([]byte("process_cpu_seconds_total much\n")); err == nil {
		t.Error("no error for what is no number")
	}
}
