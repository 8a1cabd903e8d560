package local

import (
	"time"

	"github.com/weir-dev/weir/limiter"
)

// shareCharge is the counter of one charge, and this replica's share of it.
type shareCharge struct {
	counter *counter
	share   share
}

// Spend decides charges as [limiter.Store.Spend] does, all or nothing, on this replica's share. The units that it counts are
// unreported: the store does not know them.
func (c *Counters) Spend(charges []limiter.Charge) []limiter.Decision { return c.spend(charges, true) }

// Reserve is Spend for charges that the store is about to count as well: their units do not become unreported.
func (c *Counters) Reserve(charges []limiter.Charge) []limiter.Decision {
	return c.spend(charges, false)
}

func (c *Counters) spend(charges []limiter.Charge, unreported bool) []limiter.Decision {
	c.lock()
	defer c.unlock()
	now := c.now()
	on, weighted, states := c.find(now, charges)
	decisions := limiter.Peek(now, weighted, states)
	passed := pass(charges, decisions)
	counted := make([]bool, len(charges))
	for i := range weighted {
		counted[i] = weighted[i].CountsAlways() || passed && decisions[i].Allowed && charges[i].Units() > 0
		if unreported && counted[i] {
			on[i].counter.beginUnreported(c.peersOf(charges[i].WholeShare))
			on[i].counter.lastLocal, on[i].counter.returned = c.ownTime(), 0
		}
	}
	decisions = limiter.Spend(now, weighted, states)
	for i := range charges {
		if counted[i] {
			c.keep(now, charges[i].Key, on[i].counter)
		}
	}
	return unweighted(charges, on, decisions)
}

// Returns reports whether the counter at key has returned to the store within the given time. Units were spent on it here, and the first call of
// Returns since then is its return.
func (c *Counters) Returns(key string, within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, held := c.held[key]
	if !held || k.lastLocal == 0 {
		return false
	}
	now := c.ownTime()
	if k.returned == 0 {
		k.returned = now
	}
	return now.Sub(k.returned) < within
}

// Peek decides charges and changes nothing.
func (c *Counters) Peek(charges []limiter.Charge) []limiter.Decision {
	c.lock()
	defer c.unlock()
	now := c.now()
	on, weighted, states := c.find(now, charges)
	return unweighted(charges, on, limiter.Peek(now, weighted, states))
}

// Refund refunds the charges of a Spend or Reserve that were allowed. The decisions are those that it returned.
func (c *Counters) Refund(charges []limiter.Charge, decisions []limiter.Decision) {
	c.lock()
	defer c.unlock()
	now := c.now()
	for i := range charges {
		k, held := c.held[charges[i].Key]
		if !held || !decisions[i].Allowed || charges[i].Debt || charges[i].Units() == 0 {
			continue
		}
		s := c.shareOf(k)
		k.state.Refund(now, s.weighted, charges[i].Units()*s.weight, decisions[i].At)
		c.keep(now, charges[i].Key, k)
	}
}

// RefundLatest refunds units of a charge that were spent last, up to its cost: the caller does not know when. Only a log
// distinguishes instants.
func (c *Counters) RefundLatest(charge limiter.Charge) {
	c.lock()
	defer c.unlock()
	k, ok := c.held[charge.Key]
	if !ok {
		k, ok = c.fromLearned(charge.Key, charge.Limit)
	}
	if !ok || charge.Units() == 0 {
		return
	}
	now := c.now()
	k.limit = charge.Limit
	c.setWhole(k, now, charge.WholeShare)
	s := c.shareOf(k)
	if cost := charge.Units() * s.weight; charge.Limit.Traits().Log {
		refundNewest(now, k.state, s.weighted, cost)
	} else {
		k.state.Refund(now, s.weighted, cost, k.state.Decide(now, s.weighted, 0).At)
	}
	c.keep(now, charge.Key, k)
}

// refundNewest refunds the units of a log that were spent last.
func refundNewest(now limiter.Instant, log limiter.State, limit limiter.Limit, cost int64) {
	limit = widened(limit, limiter.MaxLogUnits-limit.Units()) // units of the store and of this replica can together exceed the limit
	for cost > 0 {
		previous := log.Decide(now, limit, 0)
		log.Refund(now, limit, cost, now.Add(previous.ResetAfter-limit.Window()))
		refunded := log.Decide(now, limit, 0).Remaining - previous.Remaining
		if refunded <= 0 {
			break
		}
		cost -= refunded
	}
}

// find returns the counters of charges, the charges in weighted units, and the counters' states. A counter that is not held
// begins with the estimated usage of evicted counters, and find does not hold it.
func (c *Counters) find(now limiter.Instant, charges []limiter.Charge) (on []shareCharge, weighted []limiter.Charge, states []limiter.State) {
	on, weighted, states = make([]shareCharge, len(charges)), make([]limiter.Charge, len(charges)), make([]limiter.State, len(charges))
	for i, charge := range charges {
		k, held := c.held[charge.Key]
		if !held {
			k = c.begin(now, charge)
		}
		k.limit = charge.Limit
		c.setWhole(k, now, charge.WholeShare)
		s := c.shareOf(k)
		on[i] = shareCharge{k, s}
		weighted[i], states[i] = s.charge(charge), k.state
	}
	return on, weighted, states
}

// shareOf is this replica's share of a counter. A counter with unreported units keeps the share that it began with. The lock
// is held.
func (c *Counters) shareOf(k *counter) share {
	if k.reported != nil {
		return k.share()
	}
	return shareOf(k.limit, c.peersOf(k.whole))
}

// peersOf returns the replicas that share a counter. The lock is held.
func (c *Counters) peersOf(whole bool) Peers {
	if whole {
		return Peers{Replicas: 1}
	}
	return c.peers
}

// setWhole sets whether this replica's share of a counter is the whole limit. An edit of the policy can change that during an outage. Units that
// are unreported then get another weight, and count as if they were spent now. The lock is held.
func (c *Counters) setWhole(k *counter, now limiter.Instant, whole bool) {
	if k.whole == whole {
		return
	}
	k.whole = whole
	if k.reported == nil {
		return
	}
	unreported := k.unreported(now)
	k.peers = c.peersOf(whole)
	k.restate(now, unreported)
}

// beginUnreported separates the units that are spent here from now on from those that the store knows.
func (k *counter) beginUnreported(p Peers) {
	if k.reported == nil {
		k.reported, k.peers = k.state.Clone(), p
	}
}

// restate makes state what is reported, and unreported units that were spent now.
func (k *counter) restate(now limiter.Instant, unreported int64) {
	s := k.share()
	k.state = k.reported.Clone()
	k.state.Spend(now, s.weighted, unreported*s.weight)
}

// pass reports whether all enforced charges are allowed.
func pass(charges []limiter.Charge, decisions []limiter.Decision) bool {
	for i := range charges {
		if !charges[i].Shadow && !decisions[i].Allowed {
			return false
		}
	}
	return true
}

// unweighted converts decisions about weighted charges to decisions about charges, in place.
func unweighted(charges []limiter.Charge, on []shareCharge, decisions []limiter.Decision) []limiter.Decision {
	for i := range decisions {
		decisions[i] = on[i].share.decision(charges[i], decisions[i])
	}
	return decisions
}
