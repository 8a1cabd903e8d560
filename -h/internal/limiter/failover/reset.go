package failover

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxPendingResets bounds the counters whose reset waits for the end of an outage.
const maxPendingResets = 10_000

// resets are the counters that the remote store has to reset when it is available again.
type resets struct {
	mu      sync.Mutex
	pending map[string]string // the ID of the reset by key
}

// Reset implements limiter.Store. It also drops what this replica has spent on the counters, or has learned about them. A counter that is
// unavailable is reset in the remote store at the end of the outage, before anything is reported to it. Replicas that make a reset with the
// same id reset the remote store once: the second one would also reset what was counted since.
func (s *Store) Reset(ctx context.Context, keys []string, id string) error {
	s.WasReset(keys...)
	pendingID := cmp.Or(id, rand.Text())
	var available []string
	for _, key := range keys {
		if !s.remote.Unavailable(key) {
			available = append(available, key)
		} else if err := s.resets.add(key, pendingID); err != nil {
			return err
		}
	}
	if len(available) == 0 {
		return nil
	}
	return s.remote.Reset(ctx, available, id)
}

// WasReset drops what this replica has spent on the counters, or has learned about them, because another one has reset them.
func (s *Store) WasReset(keys ...string) { s.local.Drop(keys...) }

// PendingResets returns the number of counters whose reset waits for the end of an outage.
func (s *Store) PendingResets() int {
	s.resets.mu.Lock()
	defer s.resets.mu.Unlock()
	return len(s.resets.pending)
}

func (r *resets) add(key, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) >= maxPendingResets {
		return fmt.Errorf("%d resets wait for the end of the outage already: reset the rest afterwards", maxPendingResets)
	}
	if r.pending == nil {
		r.pending = map[string]string{}
	}
	r.pending[key] = id
	return nil
}

// remove removes a reset that was made, unless a newer one of the counter waits.
func (r *resets) remove(key, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[key] == id {
		delete(r.pending, key)
	}
}

// resetPending resets the counters that were unavailable. Those that still are remain pending.
func (s *Store) resetPending(ctx context.Context) {
	s.resets.mu.Lock()
	pending := maps.Clone(s.resets.pending)
	s.resets.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(reportsInFlight)
	for key, id := range pending { // one by one: the keys can be on several parts of the store
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if s.remote.ResetOnce(ctx, key, id) == nil {
				s.resets.remove(key, id)
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}
