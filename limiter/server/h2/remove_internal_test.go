package h2

import (
	"sync"
	"testing"
)

// The end of a request and that of its response can both remove a stream of the fallback.
func TestRemove_CountsAnAnsweredStreamOnce(t *testing.T) {
	lingering, ended := &stream{id: 1, answered: true}, &stream{id: 3, answered: true, ended: true}
	c := &conn{streams: map[uint32]*stream{1: lingering, 3: ended}, answered: 2}
	c.changed = sync.NewCond(&c.mu)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(ended)
	c.remove(ended)
	if c.answered != 1 {
		t.Errorf("%d answered streams are left, want 1", c.answered)
	}
	if c.resetAnswered(); len(c.streams) != 0 || c.answered != 0 {
		t.Errorf("%d streams, %d of them answered, are left after a reset of the answered ones", len(c.streams), c.answered)
	}
}
