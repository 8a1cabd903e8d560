package identity_test

import (
	"context"
	"time"

	"github.com/weir-dev/weir/limiter/wait"
)

// fastClock is a clock that runs faster than that of the machine.
type fastClock struct {
	begin  time.Time
	factor int64
}

func newFastClock(factor int64) fastClock { return fastClock{time.Now(), factor} }

// Now implements identity.Clock.
func (c fastClock) Now() time.Time {
	return c.begin.Add(time.Since(c.begin) * time.Duration(c.factor))
}

// Sleep implements identity.Clock.
func (c fastClock) Sleep(ctx context.Context, d time.Duration) bool {
	return wait.Sleep(ctx, c.real(d))
}

// real returns how long d of this clock takes.
func (c fastClock) real(d time.Duration) time.Duration { return d / time.Duration(c.factor) }
