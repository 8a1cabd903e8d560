package failover_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// debt is a charge on counter a with a limit per minute that is counted in any case.
func debt(t *testing.T, units, cost int64) limiter.Charge {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.FixedWindow, units, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return limiter.Charge{Key: "a", Limit: limit, Cost: cost, Debt: true}
}

func TestSpend_CountsADebtInTheStoreAlthoughALocalChargeIsDenied(t *testing.T) {
	w := newWorld()
	tokens, full := debt(t, 10, 3), one(t, "b", 1)
	w.remote.set(keys("b"), none)
	w.spend(t, full)
	for i := range int64(2) {
		d := w.spend(t, full, tokens)
		if d[0].Allowed || !d[1].Allowed || d[1].Remaining != 7-3*i {
			t.Errorf("%+v", d)
		}
	}
	if n := w.counted(t, tokens); n != 6 {
		t.Errorf("%d units are counted, want 6", n)
	}
}

func TestSpend_CountsADebtLocallyAlthoughTheStoreDenies(t *testing.T) {
	w := newWorld()
	tokens, full := debt(t, 10, 3), one(t, "b", 1)
	w.spend(t, full)
	w.remote.set(keys("a"), none)
	d := w.spend(t, tokens, full)
	if !d[0].Allowed || d[1].Allowed || d[0].Origin != limiter.OriginLocal || d[1].Origin != limiter.OriginStore {
		t.Errorf("%+v", d)
	}
	if n := w.localUnits(tokens); n != 3 {
		t.Errorf("%d units are counted locally, want 3", n)
	}
}

// A denied debt prevents the other charges.
func TestSpend_ADeniedDebtCountsAndTheOthersDoNot(t *testing.T) {
	w := newWorld()
	tokens, other := debt(t, 10, 11), one(t, "b", 5)
	w.remote.set(keys("b"), none)
	if d := w.spend(t, tokens, other); !d[0].Allowed || !d[1].Allowed {
		t.Fatalf("%+v", d)
	}
	if d := w.spend(t, tokens, other); d[0].Allowed || !d[1].Allowed || d[1].Remaining != 4 {
		t.Errorf("%+v", d)
	}
	if n := w.localUnits(other); n != 1 {
		t.Errorf("%d units of the other charge are counted, want 1", n)
	}
	refund := limiter.Refund{Key: "a", Limit: tokens.Limit, Cost: 12, At: limiter.At(w.clock())}
	if err := w.Refund(t.Context(), []limiter.Refund{refund}); err != nil || w.counted(t, tokens) != 10 {
		t.Errorf("%d of 22 units are left after a refund of 12, %v", w.counted(t, tokens), err)
	}
}

// A shadow debt that is denied prevents nothing.
func TestSpend_AShadowDebtPreventsNothing(t *testing.T) {
	w := newWorld()
	tokens, other := debt(t, 1, 2), one(t, "b", 5)
	tokens.Shadow = true
	w.remote.set(keys("b"), none)
	w.spend(t, tokens, other)
	if d := w.spend(t, tokens, other); d[0].Allowed || !d[1].Allowed || w.localUnits(other) != 2 {
		t.Errorf("%+v", d)
	}
}

// After an outage other replicas can still be in local mode. The debt is counted once, in the store.
func TestSpend_CountsADebtOnceWhileRecovering(t *testing.T) {
	w := recovering(t, 2*time.Second)
	tokens, other := debt(t, 9, 4), one(t, "b", 9)
	other.Cost = 4 // more than the share of this replica
	before := w.localUnits(tokens)
	d := w.spend(t, tokens, other)
	if !d[0].Allowed || d[1].Allowed {
		t.Errorf("%+v", d)
	}
	if stored, locally := w.counted(t, tokens), w.localUnits(tokens)-before; stored != 4 || locally != 0 {
		t.Errorf("%d units in the store and %d locally, want 4 and 0", stored, locally)
	}
}

func TestSpend_CountsADebtLocallyIfItsCallFails(t *testing.T) {
	w := newWorld()
	tokens, full := debt(t, 10, 3), one(t, "b", 1)
	w.remote.set(keys("b"), keys("a"))
	w.spend(t, full)
	if d := w.spend(t, tokens, full); !d[0].Allowed || d[0].Origin != limiter.OriginLocal || w.localUnits(tokens) != 3 {
		t.Errorf("%+v, %d units", d, w.localUnits(tokens))
	}
}

// A request that is denied or refused after a call has failed still counts its debts.
func TestSpend_CountsADebtLocallyAlthoughItsFailedCallIsDenied(t *testing.T) {
	for what, want := range map[limiter.StoreFailure]int64{limiter.AllowOnFailure: 3, limiter.DenyOnFailure: 3} {
		w := newWorld()
		w.remote.set(none, all)
		tokens, tooMuch, local := debt(t, 10, 3), one(t, "b", 1), one(t, "c", 5)
		tooMuch.Cost, tooMuch.OnStoreFailure = 2, what
		decisions, err := w.Spend(t.Context(), []limiter.Charge{tokens, tooMuch, local})
		if refused, is := errors.AsType[*limiter.RefusedError](err); what == limiter.DenyOnFailure && (!is || refused.Charge != 1) {
			t.Errorf("%v, want charge 1 refused", err)
		}
		if what == limiter.AllowOnFailure && (err != nil || !decisions[0].Allowed || decisions[0].Remaining != 7 || decisions[1].Allowed || !decisions[2].Allowed) {
			t.Errorf("%+v, %v", decisions, err)
		}
		if debts, others := w.localUnits(tokens), w.localUnits(local); debts != want || others != 0 {
			t.Errorf("%v: %d units of the debt and %d of another charge are counted locally, want %d and 0", what, debts, others, want)
		}
	}
}

// The store has counted one debt, which denies, and failed before the other.
func TestSpend_CountsADebtLocallyAlthoughTheStoreHasCountedADeniedOne(t *testing.T) {
	w := newWorld()
	counted, other := debt(t, 10, 3), debt(t, 10, 3)
	other.Key = "b"
	w.remote.fail = &limiter.PartialError{Decisions: []limiter.Decision{{RetryAfter: time.Second}, {Origin: limiter.Undecided}}, Cause: errLost}
	w.remote.set(none, all)
	decisions, err := w.Spend(t.Context(), []limiter.Charge{counted, other})
	if err != nil || decisions[0].Allowed || !decisions[1].Allowed || w.localUnits(counted) != 0 || w.localUnits(other) != 3 {
		t.Errorf("%+v, %v: %d and %d units are counted locally, want 0 and 3", decisions, err, w.localUnits(counted), w.localUnits(other))
	}
}

// A peek counts no debt.
func TestPeek_CountsNoDebtLocally(t *testing.T) {
	w := newWorld()
	w.remote.set(none, all)
	tokens, refused := debt(t, 10, 3), one(t, "b", 1)
	refused.OnStoreFailure = limiter.DenyOnFailure
	for _, charges := range [][]limiter.Charge{{tokens}, {tokens, refused}} {
		_, _ = w.Peek(t.Context(), charges) // the second is refused
		if n := w.localUnits(tokens); n != 0 {
			t.Errorf("%d units are counted locally, want 0", n)
		}
	}
}

// With Allow a debt of any size is allowed while the store is unavailable, and with Deny it is refused.
func TestSpend_DecidesDebtsByOnStoreFailure(t *testing.T) {
	w := newWorld()
	w.remote.set(all, none)
	tokens := debt(t, 10, 100)
	tokens.OnStoreFailure = limiter.AllowOnFailure
	if d := w.spend(t, tokens); !d[0].Allowed {
		t.Errorf("%+v", d)
	}
	tokens.OnStoreFailure = limiter.DenyOnFailure
	_, err := w.Spend(t.Context(), []limiter.Charge{one(t, "b", 1), tokens})
	if refused, is := errors.AsType[*limiter.RefusedError](err); !is || refused.Charge != 1 {
		t.Errorf("%v, want charge 1 refused", err)
	}
	denies := one(t, "b", 1)
	denies.OnStoreFailure = limiter.DenyOnFailure
	tokens.OnStoreFailure = limiter.LocalOnFailure
	_, err = w.Spend(t.Context(), []limiter.Charge{tokens, denies})
	if refused, is := errors.AsType[*limiter.RefusedError](err); !is || refused.Charge != 1 {
		t.Errorf("%v, want charge 1 refused", err)
	}
}

// A caller that sees ErrOverloaded can spend again, which would count the debt twice.
func TestSpend_IsNotOverloadedAfterItHasCountedADebt(t *testing.T) {
	w := overloaded(keys("b"))
	w.remote.set(keys("a"), keys("b"))
	tokens := debt(t, 10, 3)
	_, err := w.Spend(t.Context(), []limiter.Charge{one(t, "b", 10), tokens})
	partial, is := errors.AsType[*limiter.PartialError](err)
	if !is || errors.Is(err, limiter.ErrOverloaded) || !errors.Is(partial.Cause, limiter.ErrOverloaded) || w.localUnits(tokens) != 3 {
		t.Errorf("%v, %d units, want a PartialError and 3 units", err, w.localUnits(tokens))
	}
}
