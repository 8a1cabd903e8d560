package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTable_ComparesWithTheBaselineOfTheSameRound(t *testing.T) {
	// The machine was half as fast in the second round: the endpoint makes half of its floor always.
	turn := func(requests int, cached float64) sample {
		return sample{
			requests: requests, elapsed: time.Second, p50: 1500 * time.Microsecond, p99: 20 * time.Millisecond,
			client: time.Second, server: time.Second / 2, redis: time.Second / 4, cached: cached,
		}
	}
	r := results{
		rlsFloor: {turn(100_000, 0), turn(50_000, 0), turn(100_000, 0)},
		rlsKnown: {turn(50_000, 1), turn(25_000, 1), turn(50_000, 0.9)},
	}
	var got strings.Builder
	if err := r.table([]contender{{name: rlsFloor, floor: rlsFloor}, {name: rlsKnown, floor: rlsFloor}}).Write(&got); err != nil {
		t.Fatal(err)
	}
	const want = `
Requests a second, and seconds of processor time for a million; medians over the rounds, and of the rounds' ratios
                          /s  ÷ floor  p50 ms  p99 ms  client  server  Redis  all ÷ floor  known
  RLS: floor          100000    1.00×    1.50   20.00    10.0     5.0    2.5        1.00×      –
  RLS: known denials   50000    0.50×    1.50   20.00    20.0    10.0    5.0        2.00×  100 %
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}
