package failover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxPendingResets bounds the counters whose reset waits for the end of an outage.
const maxPendingResets = 10_000

// resets are the counters that the remote store has to reset when it is available again.
type resets struct {
	mu      sync.Mutex
	pending map[string]bool
}

// Reset implements limiter.Store. It also drops what this replica has spent on the counters, or has learned about them. A counter that is
// unavailable is reset in the remote store at the end of the outage, before anything is reported to it.
func (s *Store) Reset(ctx context.Context, keys []string) error {
	s.WasReset(keys...)
	var available []string
	for _, key := range keys {
		if !s.remote.Unavailable(key) {
			available = append(available, key)
		} else if err := s.resets.add(key); err != nil {
			return err
		}
	}
	if len(available) == 0 {
		return nil
	}
	return s.remote.Reset(ctx, available)
}

// WasReset drops what this replica has spent on the counters, or has learned about them, because another one has reset them.
func (s *Store) WasReset(keys ...string) { s.local.Drop(keys...) }

// PendingResets returns the number of counters whose reset waits for the end of an outage.
func (s *Store) PendingResets() int {
	s.resets.mu.Lock()
	defer s.resets.mu.Unlock()
	return len(s.resets.pending)
}

func (r *resets) add(key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) >= maxPendingResets {
		return fmt.Errorf("%d resets wait for the end of the outage already: reset the rest afterwards", maxPendingResets)
	}
	if r.pending == nil {
		r.pending = map[string]bool{}
	}
	r.pending[key] = true
	return nil
}

// resetPending resets the counters that were unavailable. Those that still are remain pending.
func (s *Store) resetPending(ctx context.Context) {
	s.resets.mu.Lock()
	keys := slices.Collect(maps.Keys(s.resets.pending))
	s.resets.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(reportsInFlight)
	for _, key := range keys { // one by one: the keys can be on several parts of the store
		group.Go(func() error {
			if s.remote.Reset(ctx, []string{key}) == nil {
				s.resets.mu.Lock()
				delete(s.resets.pending, key)
				s.resets.mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}
