package admin

import (
	"context"
	"log/slog"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// Scanner lists the keys of counters. Both stores implement it.
type Scanner interface {
	Scan(ctx context.Context, keys limiter.KeyRange, cursor string, n int) (found []string, next string, err error)
}

// Counters reads and resets the counters of an engine.
type Counters struct {
	Engine  *engine.Engine
	Scanner Scanner
	Log     *slog.Logger
	// Portion returns this replica's share of the limit of a charge, which counts while Redis is unavailable. nil if the whole limit counts.
	Portion func(limiter.Charge) Portion
}

// Portion is what counts of a limit in one replica, in units. Package local computes it.
type Portion struct {
	Units    int64 // of [limiter.Limit.Units]
	Capacity int64 // of [limiter.Limit.Capacity]
}

// CounterList is a page of counters.
type CounterList struct {
	Counters []Counter `json:"counters"`
	// Continue selects the next page; "" after the last one. A page can be empty before the last one.
	Continue string `json:"continue,omitempty"`
	// Skipped are policies that were not searched: without a policy in the query, the identifier could be an API key, which must not be
	// sent to Redis.
	Skipped    []string    `json:"skipped,omitempty"`
	Unsearched *Unsearched `json:"unsearched,omitempty"`
}

// Unsearched are policies that count each endpoint separately, and whose counters were not found because Redis could not be searched.
type Unsearched struct {
	Policies []string `json:"policies"`
	// Reason is the error of the search.
	Reason string `json:"reason"`
}

// Counter is one counter.
type Counter struct {
	Policy string `json:"policy"`
	// Identifier as it is counted: API keys are hashed, and so are identifiers that are too long for a key. "-" counts requests without an
	// identifier, "?" those whose identifier cannot be read, and "%overflow" those of identifiers over the bound.
	Identifier string `json:"identifier"`
	// Hashed is true if Identifier is the hash of an API key. A request names it with "hash:" before it.
	Hashed    bool              `json:"hashed,omitempty"`
	Endpoint  string            `json:"endpoint,omitempty"`
	Key       string            `json:"key"`
	Tier      string            `json:"tier,omitempty"`
	Algorithm limiter.Algorithm `json:"algorithm"`
	Limit     int64             `json:"limit"`
	Window    string            `json:"window"`
	// Used and Remaining are units. A tier that depends on other parts of a request can have another limit.
	Used         int64 `json:"used"`
	Remaining    int64 `json:"remaining"`
	ResetAfterMs int64 `json:"resetAfterMs"`
	// Over is true if no unit remains.
	Over bool `json:"over"`
	// Local is true if Redis is unavailable. Limit, Used and Remaining are then those of this replica's share of the limit: added over all
	// replicas, they are those of the limit. A share is listed for its identifier even if nothing counts on it.
	Local bool `json:"local,omitempty"`
}

// found is a key with what it counts.
type found struct {
	rule                      *rules.Compiled
	key, identifier, endpoint string
}

// read reads the counters at keys. It leaves out those on which nothing counts any more, except local shares: the shares of other replicas
// can have used units.
func (c *Counters) read(ctx context.Context, keys []found) ([]Counter, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	charges := make([]limiter.Charge, len(keys))
	for i, k := range keys {
		limit, _, _ := k.rule.LimitOf(k.identifier)
		if !isBucket(limit) { // the units of a window are the same under each limit, and more of them are visible under a larger one
			limit = k.rule.LargestLimit()
		}
		charges[i] = limiter.Charge{Key: k.key, Limit: limit}
	}
	decisions, err := c.Engine.Peek(ctx, charges)
	if err != nil {
		return nil, err
	}
	var counters []Counter
	for i, d := range decisions {
		isLocal := d.Origin == limiter.OriginLocal
		used := c.portion(charges[i].Key, charges[i].Limit, isLocal).Capacity - d.Remaining
		if used <= 0 && !isLocal || d.Origin == limiter.Undecided {
			continue
		}
		counters = append(counters, c.newCounter(&keys[i], max(0, used), d))
	}
	return counters, nil
}

// portion returns what counts of a limit: all of it, or this replica's share.
func (c *Counters) portion(key string, limit limiter.Limit, isLocal bool) Portion {
	if isLocal && c.Portion != nil {
		return c.Portion(limiter.Charge{Key: key, Limit: limit})
	}
	return Portion{Units: limit.Units(), Capacity: limit.Capacity()}
}

func (c *Counters) newCounter(k *found, used int64, d limiter.Decision) Counter {
	limit, tier, unlimited := k.rule.LimitOf(k.identifier)
	if unlimited {
		limit = k.rule.Limit
	}
	isLocal := d.Origin == limiter.OriginLocal
	portion := c.portion(k.key, limit, isLocal)
	remaining := max(0, portion.Capacity-used)
	return Counter{
		Policy: k.rule.Policy, Identifier: k.identifier, Hashed: k.rule.Hashes(k.identifier), Endpoint: k.endpoint, Key: k.key, Tier: tier,
		Algorithm: limit.Algorithm(),
		Limit:     portion.Units, Window: limit.Window().String(), Used: used, Remaining: remaining, ResetAfterMs: milliseconds(d.ResetAfter),
		Over: remaining == 0 && !unlimited, Local: isLocal,
	}
}

func isBucket(limit limiter.Limit) bool {
	return limit.Algorithm() == limiter.TokenBucket || limit.Algorithm() == limiter.LeakyBucket
}
