package reliability

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/latency"
)

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
	setups := startAll(t, faults)
	for i, fault := range faults {
		t.Run(fault.Name, func(t *testing.T) {
			slow := latency.Of(t)
			trial, err := RunOn(t.Context(), weir, fault, setups[i], plan)
			if err != nil {
				t.Fatal(err)
			}
			result := Measure(trial)
			t.Log("\n" + Table([]Result{result}))
			shortfalls := result.Shortfalls(fault.Want)
			for _, shortfall := range shortfalls.Wrong {
				t.Error(shortfall)
			}
			for _, shortfall := range shortfalls.Slow {
				slow.Errorf("%s", shortfall)
			}
			if len(shortfalls.All()) > 0 {
				t.Logf("plan: %+v\n%s", plan, trial.history())
			}
		})
	}
}

// startAll starts the Redis of every fault, because a start consists of waiting.
func startAll(t *testing.T, faults []Fault) []Setup {
	t.Helper()
	setups := make([]Setup, len(faults))
	t.Cleanup(func() {
		var errs []error
		for _, setup := range setups {
			if setup.Stop != nil {
				errs = append(errs, setup.Stop())
			}
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	var starts errgroup.Group
	for i, fault := range faults {
		starts.Go(func() (err error) {
			setups[i], err = fault.Start(t.Context())
			return err
		})
	}
	if err := starts.Wait(); err != nil {
		t.Fatal(err)
	}
	return setups
}
