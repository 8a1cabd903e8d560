package socket

import (
	"context"
	"time"
)

// StopTimeout is how long requests under way may take to finish once no new ones are taken.
const StopTimeout = 10 * time.Second

// Drain waits until ctx is done, calls begin, and returns when d has passed since; earlier with the error of a socket that
// fails.
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
