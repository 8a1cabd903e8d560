// Package storetest holds any limiter.Store to the promises of package limiter: written scenarios, random histories
// compared step by step with the pure algorithms, and concurrent spending.
package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Subject is a Store under test.
type Subject struct {
	Store limiter.Store
	// Spread gives every limit of a test an identifier of its own, and so a slot of a Redis Cluster.
	Spread bool
	// Expires says when the counter at key goes away by itself, at the earliest and at the latest; ok is false if
	// there is none.
	Expires func(key string) (earliest, latest limiter.Instant, ok bool)
}

// Factory makes an empty Subject that takes its time from clock.
type Factory func(t testing.TB, clock *Clock) Subject

// Clock is a clock that a test sets. It is safe for concurrent use.
type Clock struct{ now atomic.Int64 }

// Now is the time the clock was set to last.
func (c *Clock) Now() time.Time { return limiter.Instant(c.now.Load()).Time() }

// Set sets the clock.
func (c *Clock) Set(now limiter.Instant) { c.now.Store(int64(now)) }

// Epoch is where the tests' time begins: the first instant to come that every window dividing 30 days is aligned to.
// It lies ahead of the real time so that a store which expires counters by its own clock never does so under a test.
func Epoch() limiter.Instant {
	const month = limiter.Instant(limiter.MaxWindow / time.Microsecond)
	return (limiter.At(time.Now())/month + 1) * month
}

// Run runs everything in this package.
func Run(t *testing.T, factory Factory) {
	t.Run("scenarios", func(t *testing.T) { Scenarios(t, factory) })
	t.Run("histories", func(t *testing.T) { Histories(t, factory) })
	t.Run("concurrency", func(t *testing.T) { Concurrency(t, factory) })
}
