package local

import (
	"time"

	"github.com/weir-dev/weir/limiter"
)

// asked is one charge and what decides it.
type asked struct {
	counter *counter
	share   share
}

// Spend decides charges as a limiter.Store does, all or nothing, on this replica's share. What it counts is owed to the
// store.
func (c *Counters) Spend(charges []limiter.Charge) []limiter.Decision { return c.spend(charges, true) }

// Reserve is Spend for charges that the store is about to count as well: nothing is owed of them.
func (c *Counters) Reserve(charges []limiter.Charge) []limiter.Decision {
	return c.spend(charges, false)
}

func (c *Counters) spend(charges []limiter.Charge, owing bool) []limiter.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	on, weighted, states := c.ask(now, charges)
	decisions := limiter.Peek(now, weighted, states)
	if passes(charges, decisions) {
		counts := func(i int) bool { return decisions[i].Allowed && charges[i].Units() > 0 }
		for i := range charges {
			if owing && counts(i) {
				on[i].counter.borrow(c.peers)
				on[i].counter.alone = now
			}
		}
		decisions = limiter.Spend(now, weighted, states)
		for i := range charges {
			if counts(i) {
				c.keep(now, charges[i].Key, on[i].counter)
			}
		}
	}
	return told(charges, on, decisions)
}

// Alone says whether units of the counter at key were spent here alone within the time before now.
func (c *Counters) SpentWithin(key string, within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, held := c.held[key]
	return held && k.alone > 0 && c.now().Sub(k.alone) < within
}

// Peek decides charges and changes nothing.
func (c *Counters) Peek(charges []limiter.Charge) []limiter.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	on, weighted, states := c.ask(now, charges)
	return told(charges, on, limiter.Peek(now, weighted, states))
}

// Refund takes back what Spend or Reserve has just counted on those charges that it allowed.
func (c *Counters) Refund(charges []limiter.Charge, decisions []limiter.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for i := range charges {
		k, held := c.held[charges[i].Key]
		if !held || !decisions[i].Allowed || charges[i].Units() == 0 {
			continue
		}
		s := c.shareOf(k)
		k.state.Refund(now, s.held, charges[i].Units()*s.weight, decisions[i].At)
		c.keep(now, charges[i].Key, k)
	}
}

// ask finds the counters of charges. One that is not held begins with what evicted ones have spent, and is not held yet.
func (c *Counters) ask(now limiter.Instant, charges []limiter.Charge) (on []asked, weighted []limiter.Charge, states []limiter.State) {
	on, weighted, states = make([]asked, len(charges)), make([]limiter.Charge, len(charges)), make([]limiter.State, len(charges))
	for i, charge := range charges {
		k, held := c.held[charge.Key]
		if !held {
			k = c.begin(now, charge)
		}
		k.limit = charge.Limit
		s := c.shareOf(k)
		on[i] = asked{k, s}
		weighted[i], states[i] = s.charge(charge), k.state
	}
	return on, weighted, states
}

// shareOf is this replica's share of a counter. One that owes goes on as it began. The lock is held.
func (c *Counters) shareOf(k *counter) share {
	if k.told != nil {
		return k.share()
	}
	return shareOf(k.limit, c.peers)
}

// borrow notes that from now on more is spent here than the store knows.
func (k *counter) borrow(p Peers) {
	if k.told == nil {
		k.told, k.peers = k.state.Clone(), p
	}
}

// passes says whether all enforced charges are allowed.
func passes(charges []limiter.Charge, decisions []limiter.Decision) bool {
	for i := range charges {
		if !charges[i].Shadow && !decisions[i].Allowed {
			return false
		}
	}
	return true
}

func told(charges []limiter.Charge, on []asked, decisions []limiter.Decision) []limiter.Decision {
	for i := range decisions {
		decisions[i] = on[i].share.decision(charges[i], decisions[i])
	}
	return decisions
}
