package main

import (
	"context"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisstore"
)

// policy has the limit and the keys of one policy of Weir.
type policy struct {
	limit limiter.Limit
	names names
}

// newPolicy gives a LeakyBucket a queue of the limit, because without a queue it would deny almost all requests.
func newPolicy(w workload, algorithm limiter.Algorithm, axis string, names naming) (policy, error) {
	limit, err := limiter.NewLimit(algorithm, w.limit, w.window)
	if err == nil && algorithm == limiter.LeakyBucket {
		limit, err = limit.WithBurst(w.limit)
	}
	if err != nil {
		return policy{}, err
	}
	return policy{limit: limit, names: names(w, axis, limit)}, nil
}

func (p policy) charge(i int) limiter.Charge {
	return limiter.Charge{Key: p.names.at(i), Limit: p.limit, Cost: 1}
}

// naming returns the names of the keys of a workload.
type naming func(w workload, axis string, limit limiter.Limit) names

func onePolicy(algorithm limiter.Algorithm, names naming) func(*clients, workload) (decide, error) {
	return func(c *clients, w workload) (decide, error) {
		policy, err := newPolicy(w, algorithm, "Tenant", names)
		if err != nil {
			return nil, err
		}
		store := redisstore.NewStore(c.weir, timeout)
		return func(ctx context.Context, i int) (bool, error) {
			return spend(ctx, store, []limiter.Charge{policy.charge(i)})
		}, nil
	}
}

// threePolicies charges three counters of one identifier in one call.
func threePolicies(c *clients, w workload) (decide, error) {
	var policies [3]policy
	for i, of := range []struct {
		algorithm limiter.Algorithm
		axis      string
	}{{limiter.SlidingWindowCounter, "Tenant"}, {limiter.TokenBucket, "User"}, {limiter.FixedWindow, "IP"}} {
		var err error
		if policies[i], err = newPolicy(w, of.algorithm, of.axis, workload.names); err != nil {
			return nil, err
		}
	}
	store := redisstore.NewStore(c.weir, timeout)
	return func(ctx context.Context, i int) (bool, error) {
		return spend(ctx, store, []limiter.Charge{policies[0].charge(i), policies[1].charge(i), policies[2].charge(i)})
	}, nil
}

func spend(ctx context.Context, store *redisstore.Store, charges []limiter.Charge) (bool, error) {
	decisions, err := store.Spend(ctx, charges)
	if err != nil {
		return false, err
	}
	for _, d := range decisions {
		if !d.Allowed {
			return false, nil
		}
	}
	return true, nil
}
