package overload

import (
	"testing"
	"time"
)

// steps applies a measurement n times, and returns the last limit.
func (c *controller) steps(n int, delay time.Duration, inProgress, rejected int64) (limit int64) {
	for range n {
		limit = c.step(delay, inProgress, rejected)
	}
	return limit
}

func TestController_AdmitsEverythingUnlessTheDelayLasts(t *testing.T) {
	c := newController(2048)
	for range 10 { // bursts of 20 ms
		if got := c.steps(2, 50*time.Millisecond, 2048, 10); got != 2048 {
			t.Fatalf("limit %d after a burst", got)
		}
		c.step(targetDelay, 10, 0)
	}
	if got := c.steps(3, targetDelay*5/4, 1000, 0); got != 800 {
		t.Errorf("limit %d when 1000 requests have caused 5/4 of the target for 30 ms, want 800", got)
	}
}

func TestController_FollowsTheDelay(t *testing.T) {
	for name, test := range map[string]struct {
		delay    time.Duration
		rejected int64
		want     int64
	}{
		"a little too long":          {targetDelay * 5 / 4, 10, 800},
		"much too long":              {targetDelay * 10, 10, 800},
		"just right":                 {targetDelay, 10, 1001},
		"a little too short":         {targetDelay * 39 / 40, 10, 1026},
		"much too short":             {targetDelay / 4, 10, 1101},
		"none":                       {0, 10, 1101},
		"short, without rejection":   {targetDelay / 4, 0, 1000},
		"too long without rejection": {targetDelay * 5 / 4, 0, 800},
	} {
		t.Run(name, func(t *testing.T) {
			c := &controller{most: 2048, limit: 1000}
			if got := c.step(test.delay, 900, test.rejected); got != test.want {
				t.Errorf("limit %d after 1000, want %d", got, test.want)
			}
		})
	}
}

// Other processes have the processor: 2 processors of this one admit 256 requests at a time.
func TestController_AdmitsWhatTheProcessorsCanHandle(t *testing.T) {
	c := newController(2048)
	if got := c.steps(3, time.Second, 100, 0); got != 256 {
		t.Errorf("the first limit is %d, want 256", got)
	}
	if got := c.steps(100, time.Second, 100, 10); got != 256 {
		t.Errorf("limit %d, want 256", got)
	}
}

func TestController_EndsHalfASecondAfterTheLastRejection(t *testing.T) {
	c := newController(2048)
	c.steps(3, 2*targetDelay, 1000, 0)
	c.steps(10, targetDelay, 500, 100)
	if got := c.steps(49, targetDelay/4, 100, 0); got == 2048 {
		t.Error("no limit after 490 ms")
	}
	if got := c.step(targetDelay/4, 100, 0); got != 2048 {
		t.Errorf("limit %d after 500 ms, want 2048", got)
	}
	if got := c.steps(2, 2*targetDelay, 1000, 0); got != 2048 {
		t.Errorf("limit %d after 20 ms of the next delay, want 2048", got)
	}
	if got := c.steps(1, 2*targetDelay, 1000, 0); got != 500 {
		t.Errorf("limit %d after 30 ms of the next delay, want 500", got)
	}
	if got := c.steps(49, targetDelay/4, 100, 0); got != 500 {
		t.Errorf("limit %d after 490 ms without rejection, want 500 as the first time", got)
	}
}

// A process answers 100 requests a millisecond, and each one waits four times for a processor.
func TestController_ConvergesWhereRequestsWaitForTheTargetDelay(t *testing.T) {
	const capacity = 100 // requests a millisecond
	c := newController(2048)
	for _, offered := range []float64{1.5, 3} {
		queue := 0.0
		for tick := range 300 {
			inProgress := min(queue+offered*capacity*10, float64(c.limit))
			rejected := queue + offered*capacity*10 - inProgress
			delay := time.Duration(inProgress / capacity / 4 * float64(time.Millisecond))
			c.step(delay, int64(inProgress), int64(rejected))
			queue = max(0, inProgress-capacity*10)
			if tick > 100 && (delay < targetDelay/2 || delay > 2*targetDelay) {
				t.Fatalf("offered %v of the capacity: delay %v in tick %d", offered, delay, tick)
			}
		}
	}
}

// The first measurements of an overload come late. The first bound holds without them.
func TestController_NeverExceedsTheFirstBound(t *testing.T) {
	c := newController(1024)
	if got := c.steps(3, targetDelay*5/4, 5000, 0); got != 1023 {
		t.Errorf("limit %d, want 1023", got)
	}
	if got := c.steps(20, targetDelay/4, 1000, 10); got != 1023 {
		t.Errorf("limit %d after 200 ms without delay, want 1023", got)
	}
}
