package limiter

import "time"

// Instant is a point in time in microseconds since the Unix epoch: below 2^53, and so exact in Lua, until the year 2255.
type Instant int64

// At returns t as an Instant, rounded down to the microsecond.
func At(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time returns the instant as a time.Time.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)) }

// Sub returns the duration i − j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i-j) * time.Microsecond }

// Add returns the instant d later; d counts in whole microseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d/time.Microsecond) }
