package socket

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDrain_WaitsAfterTheContextUntilASocketFails(t *testing.T) {
	broken := errors.New("accept: too many open files")
	for name, test := range map[string]struct {
		done, fails time.Duration // after which ctx is done and a socket fails; 0: never
		begins      bool
		took        time.Duration
		err         error
	}{
		"waits from the end of the context":           {done: time.Minute, begins: true, took: time.Minute + 5*time.Second},
		"ends without waiting if a socket fails":      {fails: time.Minute, took: time.Minute, err: broken},
		"ends early if a socket fails while it waits": {done: time.Minute, fails: time.Minute + time.Second, begins: true, took: time.Minute + time.Second, err: broken},
		"ignores a failure after it has ended":        {done: time.Minute, fails: time.Hour, begins: true, took: time.Minute + 5*time.Second},
		"begins immediately if the context is done":   {done: time.Nanosecond, begins: true, took: 5*time.Second + time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				failed := make(chan error, 1)
				if test.done > 0 {
					defer time.AfterFunc(test.done, cancel).Stop()
				}
				if test.fails > 0 {
					defer time.AfterFunc(test.fails, func() { failed <- broken }).Stop()
				}
				began, begins := time.Now(), false
				err := Drain(ctx, 5*time.Second, func() { begins = true }, failed)
				if took := time.Since(began); !errors.Is(err, test.err) || took != test.took || begins != test.begins {
					t.Errorf("%v after %v, begun %v; want %v after %v, begun %v", err, took, begins, test.err, test.took, test.begins)
				}
			})
		})
	}
}
