package demand

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-dev/weir/limiter"
)

// Denials is what a limit denies of a demand.
type Denials struct {
	Requests, Identifiers int64
}

// Try returns what a limit would deny, as if no other policy denied a request.
func (d *Demand) Try(limit limiter.Limit) Denials { return d.TryAll([]limiter.Limit{limit})[0] }

// TryAll is Try for limits that differ only in their units and bursts, the lowest first. A client that a limit does not deny is denied by no higher one:
// what it spends is the same, and there is more room for it.
func (d *Demand) TryAll(limits []limiter.Limit) (all []Denials) {
	clients := d.all
	for _, limit := range limits {
		var denied Denials
		denied, clients = d.try(limit, false, clients)
		all = append(all, denied)
	}
	return all
}

// try is Try for some of the clients, and returns those that are denied. Their numbers are sorted. With onlyIdentifiers, it finds only these: a client is
// decided up to its first denial.
func (d *Demand) try(limit limiter.Limit, onlyIdentifiers bool, among []int32) (sum Denials, denied []int32) {
	var next atomic.Int64
	var wg sync.WaitGroup
	var lock sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			requests, own := int64(0), []int32(nil)
			for {
				i := next.Add(1) - 1
				if i >= int64(len(among)) || !canDeny(limit, &d.clients[among[i]]) {
					break
				}
				if n := d.clients[among[i]].try(limit, onlyIdentifiers); n > 0 {
					requests, own = requests+n, append(own, among[i])
				}
			}
			lock.Lock()
			defer lock.Unlock()
			sum.Requests, denied = sum.Requests+requests, append(denied, own...)
		})
	}
	wg.Wait()
	slices.Sort(denied)
	sum.Identifiers = int64(len(denied))
	return sum, denied
}

// canDeny reports whether a limit can deny a client, or one of those after it, which ask for less in total.
func canDeny(limit limiter.Limit, c *client) bool {
	return limit.Blocks() || c.sum > limit.Capacity() || limit.Traits().Queues
}

// try returns the number of denials, or at most 1 with onlyFirst.
func (c *client) try(limit limiter.Limit, onlyFirst bool) (denied int64) {
	if limit.Blocks() {
		return int64(len(c.events))
	}
	state := limit.NewState()
	for i := range c.events {
		e := &c.events[i]
		if state.Decide(e.at, limit, int64(e.cost)).Allowed {
			state.Spend(e.at, limit, int64(e.cost))
			continue
		}
		denied++
		if onlyFirst {
			break
		}
	}
	return denied
}

// WithUnits returns a limit with other units. The burst of a bucket changes with its units if they are equal.
func WithUnits(limit limiter.Limit, units int64) (limiter.Limit, error) {
	other, err := limiter.NewLimit(limit.Algorithm(), units, limit.Window())
	if err != nil || !limit.Traits().Drains || limit.Burst() == limit.Units() {
		return other, err
	}
	return other.WithBurst(limit.Burst())
}

// Least returns the smallest number of units with which limitOf denies at most a share of the requests, or of the identifiers. The limits that limitOf
// returns must differ only in their units. found is false if even the largest limit denies more.
func (d *Demand) Least(share float64, ofRequests bool, limitOf func(units int64) (limiter.Limit, error)) (units int64, found bool) {
	most := int64(share * float64(d.Identifiers))
	if ofRequests {
		most = int64(share * float64(d.Requests))
	}
	among := d.all
	suffices := func(units int64) bool { // is called only for more units than those that did not suffice
		limit, err := limitOf(units)
		if err != nil {
			return false
		}
		denied, clients := d.try(limit, !ofRequests, among)
		if ofRequests && denied.Requests <= most || !ofRequests && denied.Identifiers <= most {
			return true
		}
		among = clients // see TryAll
		return false
	}
	high := int64(1)
	for !suffices(high) {
		if high >= limiter.MaxUnits/2 {
			return 0, false
		}
		high *= 2
	}
	low := high / 2 // does not suffice, or is 0
	for high-low > 1 {
		if middle := low + (high-low)/2; suffices(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

// Counters returns the approximate number of counters at the busiest time, for all identifiers: those of the window in which the most
// identifiers sent requests. A counter of an algorithm that also counts the window before lives for two.
func (d *Demand) Counters(limit limiter.Limit) (most int64) {
	windows := map[int64]int64{}
	length := limit.Window().Microseconds() * max(limit.Traits().Windows, 1)
	for i := range d.clients {
		previous := int64(-1)
		for _, e := range d.clients[i].events {
			if number := int64(e.at) / length; number != previous {
				windows[number]++
				previous = number
			}
		}
	}
	for _, n := range windows {
		most = max(most, n)
	}
	return most * d.SampledOneIn
}

// PeakUnits returns the largest sum of units in one window of the length of that of limit, of one client.
func (d *Demand) PeakUnits(limit limiter.Limit) (most int64) {
	length := limit.Window().Microseconds()
	for i := range d.clients {
		if d.clients[i].sum <= most {
			break
		}
		number, sum := int64(-1), int64(0)
		for _, e := range d.clients[i].events {
			if n := int64(e.at) / length; n != number {
				number, sum = n, 0
			}
			sum += int64(e.cost)
			most = max(most, sum)
		}
	}
	return most
}
