package lease

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// heldOf returns a lease of size units of which some are left.
func heldOf(size, left int64) *held {
	h := &held{key: "key", size: size, returnable: true}
	h.units.Store(left)
	return h
}

func TestHeld_TakesWhatIsLeft(t *testing.T) {
	h := heldOf(10, 10)
	for _, test := range []struct {
		units, left int64
		ok          bool
	}{{4, 6, true}, {7, 0, false}, {6, 0, true}, {1, 0, false}, {0, 0, true}} {
		if left, ok := h.take(test.units); left != test.left || ok != test.ok {
			t.Errorf("take %d: %d left, %v; want %d, %v", test.units, left, ok, test.left, test.ok)
		}
	}
	if !h.giveBack(4) || h.unused() != 4 {
		t.Errorf("%d units are left after 4 were given back", h.unused())
	}
}

func TestHeld_RefundsWhatWasAdmitted(t *testing.T) {
	for name, test := range map[string]struct {
		left, refund, want int64
	}{
		"a part":               {4, 2, 2},
		"all":                  {4, 6, 6},
		"more than admitted":   {4, 7, 6},
		"nothing was admitted": {10, 1, 0},
		"all was admitted":     {0, 3, 3},
		"given back meanwhile": {11, 3, 0},
	} {
		h := heldOf(10, test.left)
		if got := h.refund(test.refund); got != test.want || h.unused() != test.left+test.want {
			t.Errorf("%s: refunded %d, %d are left; want %d, %d", name, got, h.unused(), test.want, test.left+test.want)
		}
	}
}

func TestHeld_EndsOnceWithItsUnits(t *testing.T) {
	for _, left := range []int64{0, 4} {
		h := heldOf(10, left)
		if rest, first := h.end(); rest != left || !first {
			t.Errorf("the first end returns %d, %v, want %d", rest, first, left)
		}
		if rest, first := h.end(); rest != 0 || first {
			t.Errorf("the second end returns %d, %v", rest, first)
		}
		if h.unused() != left {
			t.Errorf("%d units unused after the end, want %d", h.unused(), left)
		}
		if _, ok := h.take(1); ok || h.refund(1) != 0 || h.giveBack(1) {
			t.Error("the lease is used after its end")
		}
	}
}

func TestLeases_ReturnUnitsThatAreGivenBackAfterTheEnd(t *testing.T) {
	l := New(nil, time.Now)
	h := heldOf(10, 10)
	h.limit = logLimit(t, 1000)
	late, before := taken{lease: h, units: 3}, taken{lease: h, units: 2}
	h.units.Store(5)
	l.giveBack(&before)
	if h.unused() != 7 || !l.schedule.empty() {
		t.Errorf("%d units are left, want 7 and no return", h.unused())
	}
	l.end(h)
	l.giveBack(&late)
	l.giveBack(&taken{lease: h})
	var units []int64
	for _, r := range l.schedule.returnsBy(1 << 40) {
		units = append(units, r.Cost)
	}
	if len(units) != 2 || units[0] != 7 || units[1] != 3 {
		t.Errorf("returns %v, want the rest of 7 and 3 that came later", units)
	}
	if got := l.metrics.admitted.Load(); got != 3 {
		t.Errorf("%d units count as admitted, want 3", got)
	}
}

func TestLeases_KeepALeaseWhoseLastUnitIsGivenBack(t *testing.T) {
	l := New(nil, time.Now)
	h := heldOf(10, -1) // as if 11 units were taken: only the sum of both counts
	l.giveBack(&taken{lease: h, units: 1})
	if !l.schedule.empty() {
		t.Error("returned a unit of a lease that has not ended")
	}
}

func TestTaken_DecisionDescribesTheCounterWhenItWasLeased(t *testing.T) {
	h := heldOf(10, 10)
	h.limit, h.countedAt, h.remaining, h.resetAt = logLimit(t, 1000), 77, 400, at(30*time.Second)
	for now, reset := range map[time.Duration]time.Duration{
		10 * time.Second: 20 * time.Second, 29*time.Second + 1: 999_999 * time.Microsecond, time.Minute: 0,
	} {
		got := (&taken{lease: h, units: 3, now: at(now), left: 7}).decision()
		want := limiter.Decision{At: 77, Allowed: true, Origin: limiter.OriginLease, Limit: 1000, Remaining: 407, ResetAfter: reset}
		if got != want {
			t.Errorf("at %v: %+v, want %+v", now, got, want)
		}
	}
}
