package lease_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func TestDrop_EndsALeaseWithoutReturningIt(t *testing.T) {
	w, c := newWorld(), charge(t, limiter.SlidingWindowLog, 10_000, time.Minute)
	w.warm(t, c)
	if err := w.Store.Reset(t.Context(), []string{"key"}, ""); err != nil {
		t.Fatal(err)
	}
	w.Drop("key", "unknown")
	if d := w.decide(t, c); d.Origin == limiter.OriginLease {
		t.Error("a dropped lease admits a request")
	}
	used := w.used(t, c)
	w.now = w.now.Add(2 * time.Second) // the lease would have ended
	w.warm(t, c)
	if used != 1 || len(w.refunds) > 0 {
		t.Errorf("%d units used after the reset, want 1; %d refunds", used, len(w.refunds))
	}
}
