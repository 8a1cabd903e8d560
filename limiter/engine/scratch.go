package engine

import (
	"sync"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// scratch is the memory of one call of the Engine. It is reused: nothing may refer to it after the call.
type scratch struct {
	matches []matching.Matched
	charged []ruleCharge     // of all requests of the call, in their order
	ends    []int            // of the charges of each request in charged
	merged  []ruleCharge     // see mergeCharges
	charges []limiter.Charge // for one call of the store
	// bypassed are the rules that do not count a request of the call, because of bypasses.
	bypassed []bypassedBy
	keyless  bool   // the charges have no keys, see Plan
	keys     []byte // of charges without keys
}

// maxReused is the number of charges of the largest call whose scratch is reused.
const maxReused = 64

func newScratches() *sync.Pool { return &sync.Pool{New: func() any { return &scratch{} }} }

// borrow returns an empty scratch. The caller calls release when it ends.
func (e *Engine) borrow() *scratch {
	return e.scratches.Get().(*scratch) //nolint:forcetypeassert // all its values have this type
}

// release makes s available for another call.
func (e *Engine) release(s *scratch) {
	if cap(s.charged) > maxReused || cap(s.matches) > maxReused {
		return
	}
	clear(s.matches[:cap(s.matches)])
	clear(s.charged)
	clear(s.merged)
	clear(s.charges)
	clear(s.bypassed)
	s.charges = s.charges[:0]
	s.charged, s.merged, s.ends, s.bypassed = s.charged[:0], s.merged[:0], s.ends[:0], s.bypassed[:0]
	e.scratches.Put(s)
}

// request returns the charges of request i.
func (s *scratch) request(i int) []ruleCharge {
	start := 0
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.charged[start:s.ends[i]]
}
