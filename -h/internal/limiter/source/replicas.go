package source

import (
	"slices"
	"time"
)

// decreaseAfter is how long Redis must report fewer replicas, without interruption, before ReplicaCounter decreases its count. It
// is longer than a live replica can be missing from the list after an outage or data loss of Redis.
const decreaseAfter = 10 * time.Second

// ReplicaCounter counts the replicas of a limiter, which share its limits while Redis is unavailable. It never counts too few
// replicas for long: an increase applies immediately, a decrease after decreaseAfter.
type ReplicaCounter struct {
	self  string
	count int
	fewer time.Time // when Redis began to report fewer replicas than count; zero if it does not
}

// NewReplicaCounter returns a counter for the replica self that starts with count replicas.
func NewReplicaCounter(self string, count int) *ReplicaCounter {
	return &ReplicaCounter{self: self, count: max(count, 1)}
}

// Update records the sorted IDs of all live replicas. It returns the number of replicas and the rank of this replica, from 0. The
// rank is the last one while ids does not include this replica.
func (c *ReplicaCounter) Update(now time.Time, ids []string) (count, rank int64) {
	switch {
	case len(ids) >= c.count:
		c.count, c.fewer = len(ids), time.Time{}
	case c.fewer.IsZero():
		c.fewer = now
	case now.Sub(c.fewer) >= decreaseAfter:
		c.count, c.fewer = max(len(ids), 1), time.Time{}
	}
	position := c.count - 1
	if index, found := slices.BinarySearch(ids, c.self); found { // count is at least len(ids)
		position = index
	}
	return int64(c.count), int64(position)
}

// Failed records that the IDs could not be read.
func (c *ReplicaCounter) Failed() { c.fewer = time.Time{} }
