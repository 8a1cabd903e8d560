package overload

import "time"

// The control of the limit.
const (
	// targetDelay is how long a goroutine waits for a processor when the process has as much to do as it can do. A request
	// waits several times. With a longer delay, more requests are in progress, and each takes more processor time: its memory is no longer in the
	// caches of the processor.
	targetDelay = time.Millisecond
	// standing is how many measurements in a row exceed the target before requests are rejected: a burst is not an overload.
	standing = 3
	// leastPart of the first limit is never rejected: 128 requests for each processor, which handles them in 3 ms. If the delay is longer, other
	// processes have the processor, and rejecting these requests would not shorten it.
	leastPart = 8
	// The change of the limit from one measurement to the next is bounded, because a change shows its effect later.
	mostDecrease, mostIncrease = 0.8, 1.1
	// quiet is how many measurements in a row reject nothing before the limit ends.
	quiet = 50
)

// controller finds the number of requests in progress at which the delay is targetDelay.
type controller struct {
	most  int64 // the limit of a process that keeps up
	limit int64
	above int // measurements in a row above the target
	calm  int // measurements in a row without a rejected request
}

func newController(most int64) *controller { return &controller{most: most, limit: most} }

// step returns the limit after a measurement: the delay, the requests in progress, and the number of requests that the Gate has
// rejected since the last one.
func (c *controller) step(delay time.Duration, inProgress, rejected int64) int64 {
	ratio := float64(targetDelay) / float64(max(delay, 1))
	if c.limit == c.most {
		c.calm = 0
		if delay <= targetDelay {
			c.above = 0
			return c.limit
		}
		if c.above++; c.above >= standing {
			c.limit = min(max(c.most/leastPart, int64(float64(inProgress)*ratio)), c.most-1)
		}
		return c.limit
	}
	switch {
	case delay > targetDelay:
		c.limit = max(c.most/leastPart, int64(float64(c.limit)*max(ratio, mostDecrease)))
	case rejected > 0:
		c.limit = min(int64(float64(c.limit)*min(ratio, mostIncrease))+1, c.most-1)
	}
	if c.calm++; rejected > 0 {
		c.calm = 0
	}
	if c.calm >= quiet {
		c.limit, c.above = c.most, 0
	}
	return c.limit
}
