package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTable_ComparesWithTheBaselineOfTheSameRound(t *testing.T) {
	// The machine is half as fast in the second round: the endpoint always has half the throughput of its baseline.
	turn := func(requests int, cached float64) sample {
		return sample{
			requests: requests, elapsed: time.Second, p50: 1500 * time.Microsecond, p99: 20 * time.Millisecond,
			client: time.Second, server: time.Second / 2, redis: time.Second / 4, cached: cached,
		}
	}
	r := results{
		rlsBaseline: {turn(100_000, 0), turn(50_000, 0), turn(100_000, 0)},
		rlsKnown:    {turn(50_000, 1), turn(25_000, 1), turn(50_000, 0.9)},
	}
	var got strings.Builder
	if err := r.table([]contender{{name: rlsBaseline, baseline: rlsBaseline}, {name: rlsKnown, baseline: rlsBaseline}}).Write(&got); err != nil {
		t.Fatal(err)
	}
	const want = `
Requests per second, and processor seconds per million requests; medians over the rounds, ratios within a round
                          /s  ÷ baseline  p50 ms  p99 ms  client  server  Redis  all ÷ baseline  known
  RLS: baseline       100000       1.00×    1.50   20.00    10.0     5.0    2.5           1.00×      –
  RLS: known denials   50000       0.50×    1.50   20.00    20.0    10.0    5.0           2.00×  100 %
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}
