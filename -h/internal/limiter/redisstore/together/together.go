// Package together remembers which nodes of a Redis Cluster decide calls in several slots in one run.
package together

import (
	"sync"
	"time"
)

// The pauses after a node did not decide a batch together.
const (
	firstApart = 100 * time.Millisecond
	maxApart   = time.Minute
)

// Nodes pauses the runs for several slots, node by node: while slots move, some of them are in vain, and a service that behaves
// like a Redis Cluster may not permit them at all. Each run in vain doubles the pause of its node, until a run of that node succeeds.
type Nodes struct {
	mu     sync.Mutex
	byNode map[string]apart // by address
}

// apart is the pause of a node.
type apart struct {
	length time.Duration
	endsAt time.Time
}

// IsPaused reports whether the node at that address decides each slot on its own now.
func (t *Nodes) IsPaused(node string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Before(t.byNode[node].endsAt)
}

// Pause begins the next pause of a node, whose run was in vain.
func (t *Nodes) Pause(node string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.byNode[node]
	if now.Before(last.endsAt) {
		return // a run that began before the pause
	}
	if t.byNode == nil {
		t.byNode = map[string]apart{}
	}
	length := min(max(2*last.length, firstApart), maxApart)
	t.byNode[node] = apart{length, now.Add(length)}
}

// Resume ends the pauses of a node, whose run succeeded.
func (t *Nodes) Resume(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byNode, node)
}
