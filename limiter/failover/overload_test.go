package failover_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// overloaded is a world whose remote store makes no call for the counters of fails.
func overloaded(fails func(string) bool) *world {
	w := newWorld()
	w.remote.fail = fmt.Errorf("spend: %w", limiter.ErrOverloaded)
	w.remote.set(none, fails)
	return w
}

// The remote store goes on admitting up to the limit. A local decision would admit more.
func TestSpend_DecidesNothingLocallyWhileThisProcessIsOverloaded(t *testing.T) {
	w := overloaded(all)
	observed := 0
	w.ObserveCalls(func(string, time.Duration, error) { observed++ })
	charges := []limiter.Charge{one(t, "a", 10), one(t, "b", 10)}
	charges[1].OnStoreFailure = limiter.AllowOnFailure
	for name, decide := range map[string]func() ([]limiter.Decision, error){
		"spend": func() ([]limiter.Decision, error) { return w.Spend(t.Context(), charges) },
		"peek":  func() ([]limiter.Decision, error) { return w.Peek(t.Context(), charges) },
	} {
		d, err := decide()
		if refused, is := errors.AsType[*limiter.RefusedError](err); !errors.Is(err, limiter.ErrOverloaded) || is || d != nil {
			t.Errorf("%s: %+v, %v, %v, want only ErrOverloaded", name, d, err, refused)
		}
	}
	if w.local.HasUnreported() {
		t.Error("units are spent locally")
	}
	if observed != 0 {
		t.Errorf("%d calls of the remote store observed, want 0: none was made", observed)
	}
	if _, active := w.LocalMode(); active {
		t.Error("local mode")
	}
}

// A caller that asks a policy with Deny learns which policy refused, as in an outage.
func TestSpend_NamesTheChargeThatDeniesWhileThisProcessIsOverloaded(t *testing.T) {
	w := overloaded(all)
	charges := []limiter.Charge{one(t, "a", 10), one(t, "b", 10), one(t, "c", 10)}
	charges[1].OnStoreFailure, charges[1].Shadow = limiter.DenyOnFailure, true
	charges[2].OnStoreFailure = limiter.DenyOnFailure
	_, err := w.Spend(t.Context(), charges)
	refused, is := errors.AsType[*limiter.RefusedError](err)
	if !is || refused.Charge != 2 || !errors.Is(err, limiter.ErrOverloaded) {
		t.Errorf("%v, want charge 2 refused because of ErrOverloaded", err)
	}
}

// A part of the store can be unavailable while this process is too busy for the other.
func TestSpend_RefundsTheLocalPartOfARequestThatIsNotSent(t *testing.T) {
	w := overloaded(keys("a"))
	w.remote.set(keys("b"), keys("a"))
	if _, err := w.Spend(t.Context(), []limiter.Charge{one(t, "b", 10), one(t, "a", 10)}); !errors.Is(err, limiter.ErrOverloaded) {
		t.Fatalf("%v, want ErrOverloaded", err)
	}
	if n := w.localUnits(one(t, "b", 10)); n != 0 || w.local.HasUnreported() {
		t.Errorf("%d units are spent locally, want 0", n)
	}
}
