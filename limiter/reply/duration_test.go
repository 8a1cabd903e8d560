package reply

import (
	"testing"
	"time"
)

func TestShortDuration_LeavesOutTrailingZeros(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h", 10 * time.Hour: "10h",
		24 * time.Hour: "24h", time.Hour + time.Second: "1h0m1s", 100 * time.Minute: "1h40m",
	} {
		got := ShortDuration(d)
		if parsed, err := time.ParseDuration(got); got != want || parsed != d || err != nil {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
