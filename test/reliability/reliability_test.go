package reliability

import (
	"os"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

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
			trial, err := Run(t.Context(), weir, fault, plan)
			if err != nil {
				t.Fatal(err)
			}
			result := Measure(trial)
			t.Log("\n" + Table([]Result{result}))
			for _, shortfall := range result.Shortfalls(fault.Want) {
				t.Error(shortfall)
			}
		})
	}
}
