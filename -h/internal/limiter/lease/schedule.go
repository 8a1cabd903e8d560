package lease

import (
	"container/heap"
	"sync"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// schedule is what Run has to do: entries whose leases end, and units to return.
type schedule struct {
	wake chan struct{} // receives when there is something to do

	mu      sync.Mutex
	due     dueHeap
	returns []giveUp
}

// giveUp is the rest of a lease that has ended.
type giveUp struct {
	limiter.Refund

	tryAt, uselessAt instant // the store is called between them
}

// add makes Run look at an entry at the given time.
func (s *schedule) add(dueAt instant, e *entry) {
	s.mu.Lock()
	heap.Push(&s.due, due{dueAt, e})
	s.mu.Unlock()
	s.notify()
}

// give makes Run return units. It reports false if too many returns wait.
func (s *schedule) give(units giveUp) bool {
	s.mu.Lock()
	fits := len(s.returns) < maxReturns
	if fits {
		s.returns = append(s.returns, units)
	}
	s.mu.Unlock()
	s.notify()
	return fits
}

func (s *schedule) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *schedule) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.due) == 0 && len(s.returns) == 0
}

// dueBy removes and returns the entries that are due at now.
func (s *schedule) dueBy(now instant) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var entries []*entry
	for len(s.due) > 0 && s.due[0].dueAt <= now {
		entries = append(entries, heap.Pop(&s.due).(due).entry) //nolint:forcetypeassert // all its elements have this type
	}
	return entries
}

// returnsBy removes and returns the units to return at now.
func (s *schedule) returnsBy(now instant) []giveUp {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ready []giveUp
	later := s.returns[:0]
	for _, g := range s.returns {
		if g.tryAt <= now {
			ready = append(ready, g)
		} else {
			later = append(later, g)
		}
	}
	s.returns = later
	return ready
}

// due is an entry and when Run looks at it.
type due struct {
	dueAt instant
	entry *entry
}

// dueHeap implements heap.Interface.
type dueHeap []due

func (h *dueHeap) Len() int           { return len(*h) }
func (h *dueHeap) Less(i, j int) bool { return (*h)[i].dueAt < (*h)[j].dueAt }
func (h *dueHeap) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *dueHeap) Push(x any)         { *h = append(*h, x.(due)) } //nolint:forcetypeassert // heap.Interface
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = due{}
	*h = old[:len(old)-1]
	return last
}
