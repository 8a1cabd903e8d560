package proof

import (
	"os"
	"testing"
	"time"
)

// soakUsually is how long a proof goes on under WEIR_SOAK=1.
const soakUsually = 5 * time.Minute

// soakFor is how long each proof goes on, in rounds, by the environment variable WEIR_SOAK: a duration, 1 for the usual
// one, or nothing for one round. Random histories are then longer, see stepsOfEach.
func soakFor(t testing.TB) time.Duration {
	t.Helper()
	switch value := os.Getenv("WEIR_SOAK"); value {
	case "":
		return 0
	case "1":
		return soakUsually
	default:
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			t.Fatalf("WEIR_SOAK=%q is neither 1 nor a duration such as 30m", value)
		}
		return d
	}
}

// rounds plays round once, or again and again for as long as WEIR_SOAK says, until the test fails.
func rounds(t *testing.T, round func(number int)) {
	t.Helper()
	end := time.Now().Add(soakFor(t))
	for number := 0; number == 0 || (time.Now().Before(end) && !t.Failed()); number++ {
		round(number)
	}
}
