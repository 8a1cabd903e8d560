package proof

import (
	"os"
	"testing"
	"time"
)

// defaultSoak is the duration of each test with WEIR_SOAK=1.
const defaultSoak = 5 * time.Minute

// soakFor returns how long each test repeats its rounds. The environment variable WEIR_SOAK is a duration, or 1 for
// defaultSoak; if it is not set, each test runs one round.
func soakFor(t testing.TB) time.Duration {
	t.Helper()
	switch value := os.Getenv("WEIR_SOAK"); value {
	case "":
		return 0
	case "1":
		return defaultSoak
	default:
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			t.Fatalf("invalid WEIR_SOAK=%q: must be 1 or a duration such as 30m", value)
		}
		return d
	}
}

// rounds runs round once, or repeatedly for the duration of WEIR_SOAK, until the test fails.
func rounds(t *testing.T, round func(number int)) {
	t.Helper()
	end := time.Now().Add(soakFor(t))
	for number := 0; number == 0 || (time.Now().Before(end) && !t.Failed()); number++ {
		round(number)
	}
}
