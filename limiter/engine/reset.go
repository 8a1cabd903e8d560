package engine

import (
	"context"

	"github.com/weir-dev/weir/limiter"
)

// Reset resets the counters at keys: in the store, and in what this replica knows about them. A store in Redis notifies the other replicas,
// which call WasReset. While Redis is unavailable, only this replica forgets, and the store resets the counters after the outage: once for all replicas
// whose reset has the same id, which can be "".
func (e *Engine) Reset(ctx context.Context, keys []string, id string) error {
	e.endLeases(keys)
	var err error
	if e.failover != nil && id != "" {
		err = e.failover.ResetAs(ctx, keys, id)
	} else {
		err = e.store.Reset(ctx, keys)
	}
	e.Forget(keys...)
	return err
}

// WasReset forgets what this replica knows about the counters at keys, because another one has reset them.
func (e *Engine) WasReset(keys ...string) {
	e.endLeases(keys)
	if e.failover != nil {
		e.failover.WasReset(keys...)
	}
	e.Forget(keys...)
}

func (e *Engine) endLeases(keys []string) {
	if e.leases != nil {
		e.leases.Drop(keys...)
	}
}

// Peek returns what the store would decide about charges, and changes nothing.
func (e *Engine) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return e.store.Peek(ctx, charges)
}
