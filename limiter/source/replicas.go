package source

import (
	"slices"
	"time"
)

// believedAfter is for how long fewer replicas must have been heard of, without a gap, until they are taken to be fewer:
// longer than one that lives can be missing from the list after Redis was away, or has lost what it held.
const believedAfter = 10 * time.Second

// ReplicaCounter counts the replicas of a limiter: what it shares limits by when Redis is away. It errs to many.
type ReplicaCounter struct {
	self  string
	count int
	fewer time.Time // since when fewer than count were heard of; zero if they were not
}

// NewReplicaCounter returns a census by the replica self, of count replicas until more is known.
func NewReplicaCounter(self string, count int) *ReplicaCounter {
	return &ReplicaCounter{self: self, count: max(count, 1)}
}

// Heard takes note of the ids of all replicas that are alive, sorted, and returns how many to reckon with and which of them
// this one is, from 0. It is the last as long as it has not been heard of itself.
func (c *ReplicaCounter) Heard(now time.Time, ids []string) (count, rank int64) {
	switch {
	case len(ids) >= c.count:
		c.count, c.fewer = len(ids), time.Time{}
	case c.fewer.IsZero():
		c.fewer = now
	case now.Sub(c.fewer) >= believedAfter:
		c.count, c.fewer = max(len(ids), 1), time.Time{}
	}
	at, known := slices.BinarySearch(ids, c.self)
	if !known {
		at = c.count - 1
	}
	return int64(c.count), int64(min(at, c.count-1))
}

// Missed takes note that nothing was heard.
func (c *ReplicaCounter) Missed() { c.fewer = time.Time{} }
