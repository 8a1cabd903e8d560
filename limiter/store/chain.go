// Package store puts the layers together that decide requests above the counters. Each layer makes some decisions, and passes the other requests on.
package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
)

// Layers are the layers of a [Chain]. Each can be nil: then the chain does without it.
type Layers struct {
	Leases   *lease.Leases
	Denials  *denials.Cache
	Bound    *bound.Counters
	Failover *failover.Store
}

// Chain is a [limiter.Store] of layers above counters. It is safe for concurrent use.
type Chain struct {
	limiter.Store

	layers Layers
}

// New returns the chain of layers above counters, which layers.Failover replaces if it is set: it has its own. From the top:
//
//	leases      admit requests on units that this replica has spent before
//	denials     deny what the counters have denied, until they can admit something
//	bound       moves new identifiers of rules with too many counters to a shared counter
//	denials     learn what the counters deny
//	leases      spend units ahead, together with a request
//	calls       measures and traces the calls of the counters
//	failover    decides while the counters are unavailable
//
// It registers its metrics and those of the layers. If the registry is nil, the calls of the counters are not measured.
func New(counters limiter.Store, layers Layers, registry prometheus.Registerer) *Chain {
	var observe func(op string, took time.Duration, err error)
	if registry != nil {
		observe = newMetrics(registry, layers).called
	}
	var next limiter.Store
	if layers.Failover != nil {
		if observe != nil {
			layers.Failover.ObserveCalls(observe)
		}
		next = &calls{layers.Failover, nil}
	} else {
		next = &calls{counters, observe}
	}
	if layers.Leases != nil {
		next = layers.Leases.Borrow(next)
	}
	if layers.Denials != nil {
		next = layers.Denials.Learns(next)
	}
	if layers.Bound != nil {
		shared := next
		if layers.Denials != nil {
			shared = layers.Denials.Answers(next)
		}
		next = layers.Bound.Above(next, shared)
	}
	if layers.Denials != nil {
		next = layers.Denials.Answers(next)
	}
	if layers.Leases != nil {
		next = layers.Leases.Admit(next)
	}
	return &Chain{next, layers}
}

// Swap drops what belongs to removed rules. Call it for the first rules, and when the rules have changed.
func (c *Chain) Swap(removed, added []*limiter.CountedRule) {
	if c.layers.Bound != nil {
		c.layers.Bound.Swap(removed, added)
	}
}

// Known returns the denials of a request that the chain would return without asking the counters, nil if it would ask. The decisions on the
// charges that it would not ask about are Undecided.
func (c *Chain) Known(charges []limiter.Charge) []limiter.Decision {
	if c.layers.Denials == nil {
		return nil
	}
	return c.layers.Denials.Known(charges)
}

// WasRefunded forgets what this replica knows about the counters at keys, because another one has refunded units on them.
func (c *Chain) WasRefunded(keys ...string) {
	if c.layers.Denials != nil {
		c.layers.Denials.Forget(keys...)
	}
}

// WasReset forgets what this replica knows about the counters at keys, because another one has reset them.
func (c *Chain) WasReset(keys ...string) {
	if c.layers.Leases != nil {
		c.layers.Leases.Drop(keys...)
	}
	if c.layers.Failover != nil {
		c.layers.Failover.WasReset(keys...)
	}
	c.WasRefunded(keys...)
}

// MayHaveChanged forgets what a refund by another replica changes, of all counters. Call it when a WasRefunded may have been missed.
func (c *Chain) MayHaveChanged() {
	if c.layers.Denials != nil {
		c.layers.Denials.ForgetAll()
	}
}
