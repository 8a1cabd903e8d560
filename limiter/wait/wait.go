// Package wait waits for a time, or until a context ends.
package wait

import (
	"context"
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
