// Package wait waits for a time, or until a context ends.
package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep returns true after d, or false if ctx ends first or has ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Jittered returns a random duration from d/2 to 3d/2.
func Jittered(d time.Duration) time.Duration {
	return time.Duration((0.5 + rand.Float64()) * float64(d))
}
