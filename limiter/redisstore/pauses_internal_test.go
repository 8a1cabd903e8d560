package redisstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Limiters that wait for the same node must neither flood it, nor notice late that it answers again.
func TestBreaker_PausesBetweenProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const probes = 1004
		var at []time.Duration
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		probe := func(context.Context, string) error {
			if at = append(at, time.Since(began)); len(at) < probes {
				return errors.New("down")
			}
			return nil
		}
		b := (&breakerConfig{probe: probe, observer: unusedObserver{}, ctx: ctx, timeout: patience}).newBreaker("node")
		b.trip(0, "", errors.New("down"), func() {})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if b.state.Load() != closed || len(at) != probes || at[0] != 0 {
			t.Fatalf("state %d after %d probes, the first one after %v", b.state.Load(), len(at), at[0])
		}
		const ms = time.Millisecond
		for i, mean := range []time.Duration{25 * ms, 50 * ms, 100 * ms} {
			if pause := at[i+1] - at[i]; pause < mean/2 || pause > mean*3/2 {
				t.Errorf("pause %d takes %v, want %v, give or take a half", i+1, pause, mean)
			}
		}
		shortest, longest := at[4]-at[3], at[4]-at[3]
		for i := 4; i < probes; i++ {
			shortest, longest = min(shortest, at[i]-at[i-1]), max(longest, at[i]-at[i-1])
		}
		if shortest < 60*ms || shortest > 70*ms || longest < 170*ms || longest > 180*ms {
			t.Errorf("later pauses take %v to %v, want 60 to 180 ms", shortest, longest)
		}
	})
}
