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

// The nodes of a cluster disagree about who has a slot. A probe that another node answered is no recovery of this one, until it is the only one that
// answers for a second.
func TestBreaker_AProbeOfAnotherNodeIsNoRecovery(t *testing.T) {
	for name, test := range map[string]struct {
		isElsewhere func(since time.Duration) bool
		want        time.Duration // until the breaker closes; 0 if it does not within a minute
	}{
		"another node takes over":  {func(time.Duration) bool { return true }, settles},
		"this node answers":        {func(time.Duration) bool { return false }, 1},
		"the nodes disagree":       {func(since time.Duration) bool { return since/(500*time.Millisecond)%2 == 0 }, 0},
		"and agree after a second": {func(since time.Duration) bool { return since > time.Second || since < 500*time.Millisecond }, time.Second + settles},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				isElsewhere := func(string) bool { return test.isElsewhere(time.Since(began)) }
				answers := func(_ context.Context, key string) error {
					if test.want != 1 && !isElsewhere(key) {
						return errors.New("no route to host")
					}
					return nil
				}
				b := (&breakerConfig{probe: answers, observer: unusedObserver{}, ctx: ctx, timeout: patience}).newBreaker("node")
				b.isElsewhere = isElsewhere
				b.trip(0, "", errors.New("down"), func() {})
				for b.state.Load() != closed && time.Since(began) < time.Minute {
					time.Sleep(time.Millisecond)
				}
				took := time.Since(began)
				switch {
				case test.want == 0 && took < time.Minute:
					t.Errorf("closed after %v, want not to close", took)
				case test.want > 0 && (took < test.want-time.Millisecond || took > test.want+250*time.Millisecond):
					t.Errorf("closed after %v, want about %v", took, test.want)
				}
			})
		})
	}
}
