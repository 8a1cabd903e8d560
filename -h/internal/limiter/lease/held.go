package lease

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// ended is added to the units of a lease that ends. Units that are given back to it do not make it positive.
const ended = math.MinInt64 / 2

// held is one lease. All fields except units are immutable.
type held struct {
	units atomic.Int64 // that are left, see unused; negative after the end
	_     [56]byte     // the fields below are read by every request, and units is written by them: keep them in separate cache lines

	key              string
	limit            limiter.Limit
	size             int64
	began, expiresAt instant         // it admits requests before expiresAt
	countedAt        limiter.Instant // at which the store counted the units
	remaining        int64           // units that the store had left
	resetAt          instant
	// returnable is false if the store was unavailable and this replica counted the units.
	returnable bool
}

// instant is a monotonic time in nanoseconds since the Leases were created.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d) }

// take takes n units, at most those that are left.
func (h *held) take(n int64) (left int64, ok bool) {
	for {
		left := h.units.Load()
		if left < n {
			return 0, false
		}
		if h.units.CompareAndSwap(left, left-n) {
			return left - n, true
		}
	}
}

// giveBack gives back n units that were taken. It reports false if the lease has ended meanwhile.
func (h *held) giveBack(n int64) bool { return h.units.Add(n) >= 0 }

// refund gives back up to n units of requests that were admitted, and returns their number.
func (h *held) refund(n int64) int64 {
	for {
		left := h.units.Load()
		back := min(n, h.size-left)
		if left < 0 || back <= 0 {
			return 0
		}
		if h.units.CompareAndSwap(left, left+back) {
			return back
		}
	}
}

// unused returns the units that no request has used, also after the end.
func (h *held) unused() int64 {
	left := h.units.Load()
	if left < 0 {
		left -= ended
	}
	return left
}

// end ends the lease and returns the units that are left. It reports false if the lease has ended before.
func (h *held) end() (rest int64, first bool) {
	for {
		rest := h.units.Load()
		if rest < 0 {
			return 0, false
		}
		if h.units.CompareAndSwap(rest, ended+rest) {
			return rest, true
		}
	}
}

// decision is the decision about a charge that was admitted at now and left the given units.
func (h *held) decision(now instant, left int64) limiter.Decision {
	return limiter.Decision{
		At: h.countedAt, Allowed: true, Origin: limiter.OriginLease, Limit: h.limit.Units(), Remaining: h.remaining + left,
		ResetAfter: time.Duration(max(0, h.resetAt-now)).Truncate(time.Microsecond),
	}
}

// untilWindowEnds is the time from countedAt to the end of the window to which units belong that were spent then, for the algorithms with windows
// that are aligned to the epoch. A lease must not outlive it. For the other algorithms, aligned is false.
func untilWindowEnds(limit limiter.Limit, countedAt limiter.Instant) (rest time.Duration, aligned bool) {
	if !limit.Traits().Aligned {
		return 0, false
	}
	window := limit.Window().Microseconds()
	return time.Duration(window-int64(countedAt)%window) * time.Microsecond, true
}
