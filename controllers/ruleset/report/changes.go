package report

import (
	"sync"
	"time"
)

// ChangeCounter counts the changes of objects that watches report. It stays 0 if nothing is watched. It is safe for concurrent use.
type ChangeCounter struct {
	mu     sync.Mutex
	n      uint64
	latest time.Time
	isMany bool // the latest changes belong together
}

const (
	// closeChanges is the time between changes that belong together, as when a GitOps tool applies many policies. A person, or a program that waits for
	// the effect of a change, needs longer.
	closeChanges = 15 * time.Millisecond
	// lastChange is the time after which the next change belongs to no earlier one.
	lastChange = 200 * time.Millisecond
)

// Add counts a change.
func (c *ChangeCounter) Add(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	gap := now.Sub(c.latest)
	c.isMany, c.latest = gap < closeChanges || c.isMany && gap < lastChange, now
}

// Since returns the count, and whether there may have been a change since an earlier count.
func (c *ChangeCounter) Since(earlier uint64) (now uint64, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.n == 0 || c.n != earlier
}

// AreMany reports whether several changes have followed an earlier count, or the last one belongs to many.
func (c *ChangeCounter) AreMany(earlier uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n > earlier && (c.n > earlier+1 || c.isMany)
}

// IsOne reports whether exactly one change has followed an earlier count.
func (c *ChangeCounter) IsOne(earlier uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n == earlier+1
}
