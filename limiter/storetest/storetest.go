// Package storetest is the conformance suite of limiter.Store: written scenarios, random histories that are compared step
// by step with the algorithms of package limiter, and concurrent spending.
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
	// Spread gives each limit of a test its own identifier, and so its own slot of a Redis Cluster.
	Spread bool
	// Compact gives limits of counted windows compact counters.
	Compact bool
	// Forward keeps the clock from stepping back: the Store compares it with durations.
	Forward bool
	// Begin is called before each history, in which the clock starts again. It can be nil.
	Begin func()
	// Decided returns the number of decisions by where they were made. It can be nil.
	Decided func() map[limiter.Origin]int
	// Expires returns the earliest and the latest time at which the counter at key expires; ok is false if it does not
	// exist.
	Expires func(key string) (earliest, latest limiter.Instant, ok bool)
}

// Factory returns an empty Subject that uses clock.
type Factory func(t testing.TB, clock *Clock) Subject

// Clock is set by a test. It is safe for concurrent use.
type Clock struct{ now atomic.Int64 }

// Now returns the time to which the clock was set.
func (c *Clock) Now() time.Time { return limiter.Instant(c.now.Load()).Time() }

// Set sets the clock.
func (c *Clock) Set(now limiter.Instant) { c.now.Store(int64(now)) }

// Epoch is the time at which tests begin: the next boundary of every window that divides 30 days. It is later than the real
// time, so that a store that expires counters by its own clock does not expire them during a test.
func Epoch() limiter.Instant {
	const month = limiter.Instant(limiter.MaxWindow / time.Microsecond)
	return (limiter.At(time.Now())/month + 1) * month
}

// Run runs all tests of this package.
func Run(t *testing.T, factory Factory) {
	t.Run("scenarios", func(t *testing.T) { Scenarios(t, factory) })
	t.Run("histories", func(t *testing.T) { Histories(t, factory) })
	t.Run("concurrency", func(t *testing.T) { Concurrency(t, factory) })
}
