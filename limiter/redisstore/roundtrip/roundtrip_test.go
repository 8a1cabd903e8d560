package roundtrip_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisstore/roundtrip"
)

func TestTimes_MaxInFlightGrowsWithTheShortestRecentRoundTrip(t *testing.T) {
	type trip struct{ at, took time.Duration }
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		trips []trip
		want  int
	}{
		"none":                           {nil, 2},
		"near":                           {[]trip{{0, ms / 5}}, 2},
		"almost 1 ms":                    {[]trip{{0, ms - 1}}, 2},
		"1 ms":                           {[]trip{{0, ms}}, 3},
		"distant":                        {[]trip{{0, 4 * ms}}, 6},
		"very distant":                   {[]trip{{0, 40 * ms}}, 8},
		"the shortest counts":            {[]trip{{0, 9 * ms}, {ms, ms}, {2 * ms, 9 * ms}}, 3},
		"also that of the window before": {[]trip{{0, ms}, {1000 * ms, 9 * ms}}, 3},
		"not an older one":               {[]trip{{0, ms}, {1000 * ms, 5 * ms}, {2000 * ms, 5 * ms}}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			var r roundtrip.Times
			for _, trip := range test.trips {
				r.Add(time.Unix(1, 0).Add(trip.at), trip.took)
			}
			if got := r.MaxInFlight(); got != test.want {
				t.Errorf("%d batches in flight, want %d", got, test.want)
			}
		})
	}
}
