package reliability

import (
	"os"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// plays is how often a fault is played at the most, always to the same standard, where the machine was disturbed.
const plays = 8

// TestClientsDoNotNoticeThatRedisIsAway plays the short faults; all of them, each for longer, when WEIR_SOAK is set.
func TestClientsDoNotNoticeThatRedisIsAway(t *testing.T) {
	faults, plan := Short(), Quick()
	if os.Getenv("WEIR_SOAK") != "" {
		faults, plan = Faults(), Long()
	}
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Run(fault.Name, func(t *testing.T) {
			for played := 1; ; played++ {
				trial, err := Run(t.Context(), weir, fault, plan)
				if err != nil {
					t.Fatal(err)
				}
				result := Measure(trial)
				t.Log("\n" + Table([]Result{result}))
				shortfalls := result.Shortfalls(fault.Want)
				if len(shortfalls) > 0 && result.Disturbed() && played < plays {
					t.Logf("played again: the machine stood still, the load was sent up to %v late: %q", result.Late, shortfalls)
					continue
				}
				for _, shortfall := range shortfalls {
					t.Error(shortfall)
				}
				return
			}
		})
	}
}
