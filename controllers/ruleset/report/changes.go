package report

import "sync/atomic"

// ChangeCounter counts the changes of objects that watches report. It stays 0 if nothing is watched. It is safe for concurrent use.
type ChangeCounter struct{ n atomic.Uint64 }

// Add counts a change.
func (c *ChangeCounter) Add() { c.n.Add(1) }

// Since returns the count, and whether there may have been a change since an earlier count.
func (c *ChangeCounter) Since(earlier uint64) (now uint64, changed bool) {
	now = c.n.Load()
	return now, now == 0 || now != earlier
}
