package rate_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/compile/rate"
	"github.com/weir-dev/weir/limiter"
)

// limits returns limits such as "1m 5", or "1m 5 b" for a TokenBucket.
func limits(t *testing.T, list ...string) (all []limiter.Limit) {
	t.Helper()
	for _, text := range list {
		var window, bucket string
		var units int64
		if n, err := fmt.Sscan(text, &window, &units, &bucket); n < 2 {
			t.Fatal(err)
		}
		length, err := time.ParseDuration(window)
		if err != nil {
			t.Fatal(err)
		}
		algorithm := limiter.FixedWindow
		if bucket != "" {
			algorithm = limiter.TokenBucket
		}
		limit, err := limiter.NewLimit(algorithm, units, length)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, limit)
	}
	return all
}

func TestSlots(t *testing.T) {
	for _, test := range []struct {
		base  []string
		tiers [][]string
		want  string
	}{
		{[]string{"1m 5"}, nil, `"" 5`},
		{[]string{"1m 5"}, [][]string{{"1m 7"}, nil}, `"" 5 [7 -]`},
		{[]string{"1m 5", "24h 9"}, nil, `"1m" 5, "1d" 9`},
		{[]string{"1m 5", "24h 9"}, [][]string{{"1m 7"}, {"1h30m 8", "24h 3"}}, `"1m" 5 [7 -], "1d" 9 [- 3], "1h30m" - [- 8]`},
		{[]string{"90s 5"}, [][]string{{"90s 7 b"}}, `"1m30s-FixedWindow" 5 [-], "1m30s-TokenBucket" - [7]`},
		{[]string{"1m 0"}, [][]string{{"1h 7"}}, `"1m" 0 [-], "1h" - [7]`},
	} {
		var tiers [][]limiter.Limit
		for _, tier := range test.tiers {
			tiers = append(tiers, limits(t, tier...))
		}
		var got []string
		for _, s := range rate.Slots(limits(t, test.base...), tiers) {
			text := fmt.Sprintf("%q %d", s.Name, s.Limit.Units())
			if s.TiersOnly {
				text = fmt.Sprintf("%q -", s.Name)
			}
			var own []string
			for _, limit := range s.Tiers {
				if (limit == limiter.Limit{}) {
					own = append(own, "-")
				} else {
					own = append(own, strconv.FormatInt(limit.Units(), 10))
				}
			}
			if len(own) > 0 {
				text += " [" + strings.Join(own, " ") + "]"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%v, tiers %v: %s, want %s", test.base, test.tiers, text, test.want)
		}
	}
}
