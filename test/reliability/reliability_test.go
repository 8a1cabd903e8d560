package reliability

import (
	"os"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// maxRuns is how often a fault is run if the machine was disturbed. The expectation is the same every time.
const maxRuns = 8

// The test runs the short faults. With WEIR_SOAK it runs all faults, for longer.
func TestRun_ClientsHardlyNoticeFaultsOfRedis(t *testing.T) {
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
			for runs := 1; ; runs++ {
				trial, err := Run(t.Context(), weir, fault, plan)
				if err != nil {
					t.Fatal(err)
				}
				result := Measure(trial)
				t.Log("\n" + Table([]Result{result}))
				shortfalls := result.Shortfalls(fault.Want)
				if len(shortfalls) > 0 && result.Disturbed() && runs < maxRuns {
					t.Logf("running the fault again: the machine was disturbed, the load was sent up to %v late: %q", result.Late, shortfalls)
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
