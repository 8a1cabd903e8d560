package bound

import (
	"hash/maphash"
	"math"
	"strconv"
	"testing"
	"time"
)

// clocked is a population with a clock that the test sets.
type clocked struct {
	*population
	now   time.Time
	added int
	seed  maphash.Seed
}

func newClocked(most int64, lifetime time.Duration) *clocked {
	c := &clocked{now: time.Unix(1_800_000_000, 0), seed: maphash.MakeSeed()}
	c.population = newPopulation(most, c.now)
	c.setLifetime(lifetime)
	return c
}

func (c *clocked) clock() time.Time { return c.now }

// addNew adds n counters that it has not added before.
func (c *clocked) addNew(n int) {
	for range n {
		c.added++
		c.add(maphash.String(c.seed, strconv.Itoa(c.added)), c.clock)
	}
}

func (c *clocked) expect(t *testing.T, what string, over bool, estimate float64) {
	t.Helper()
	if got := c.isOver(c.clock); got != over {
		t.Errorf("%s: over the bound is %v, want %v", what, got, over)
	}
	if got := c.estimate(); math.Abs(got-estimate) > estimate/5 {
		t.Errorf("%s: the estimate is %.0f, want about %.0f", what, got, estimate)
	}
}

func TestPopulation_CountsCountersForOneToTwoGenerations(t *testing.T) {
	const lifetime = 10 * time.Second
	c := newClocked(100, lifetime)
	c.addNew(640)
	c.expect(t, "after 640 counters", true, 640)
	c.now = c.now.Add(lifetime - 1)
	c.expect(t, "before a generation ends", true, 640)
	c.now = c.now.Add(1)
	c.expect(t, "in the next generation", true, 640)
	c.addNew(64)
	c.expect(t, "counters of two generations", true, 704)
	c.now = c.now.Add(lifetime)
	c.expect(t, "the generation after that", false, 64)
	c.addNew(64)
	c.now = c.now.Add(lifetime)
	c.addNew(64)
	c.expect(t, "without the first of three generations", true, 128)
}

func TestPopulation_ForgetsBothGenerationsAfterAPause(t *testing.T) {
	const lifetime = 10 * time.Second
	for pause, want := range map[time.Duration]float64{2*lifetime - 1: 640, 2 * lifetime: 0} {
		c := newClocked(1, lifetime)
		c.addNew(640)
		c.now = c.now.Add(pause)
		c.expect(t, pause.String(), want > 0, want)
	}
}

func TestPopulation_GenerationsLastASecondAtLeast(t *testing.T) {
	c := newClocked(100, time.Millisecond)
	c.addNew(640)
	c.now = c.now.Add(2*time.Second - 1)
	c.expect(t, "before two seconds", true, 640)
}
