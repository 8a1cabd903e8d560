package socket

import (
	"context"
	"time"
)

// StopTimeout bounds the time that requests in flight have to finish when no new ones are accepted.
const StopTimeout = 10 * time.Second

// Drain waits until ctx is done, calls begin, waits for d, and returns nil. If failed delivers an error in the meantime, Drain returns it
// immediately.
func Drain(ctx context.Context, d time.Duration, begin func(), failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	begin()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-failed:
		return err
	case <-timer.C:
		return nil
	}
}
