package monitor

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRegisterRejected_ReportsThatARuleSetIsRejected(t *testing.T) {
	registry, reason := prometheus.NewRegistry(), error(nil)
	RegisterRejected(registry, func() error { return reason })
	for want, err := range map[string]error{"0": nil, "1": errors.New("shard 3 is missing")} {
		reason = err
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatal(families, err)
		}
		if got := families[0].GetMetric()[0].GetGauge().GetValue(); (got == 1) != (want == "1") {
			t.Errorf("%v: %v, want %s", reason, got, want)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
