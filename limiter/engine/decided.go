package engine

import (
	"bytes"
	"slices"
	"sync"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// Decided returns the revision of the active rule set, and a bitmap of the policies that have decided a request since the process started: bit i%8
// of byte i/8 stands for policy i in the order of their names, see [matching.Index.NumberOf]. A request is decided if it was charged, denied, or let pass
// by an unlimited tier. A request that a bypass lets pass is not decided. Zero bytes at the end are omitted. The bitmap is nil before the first Swap,
// and not nil after it. The cost grows with the rules that have decided for the first time since the last call or Swap.
func (e *Engine) Decided() (revision string, bitmap []byte) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	index := e.Index()
	if index == nil {
		return "", nil
	}
	e.noteDecided()
	return index.Revision(), append([]byte{}, e.decided.policies...)
}

// noteDecided adds the rules that have decided for the first time since the last call. The caller holds swapping.
func (e *Engine) noteDecided() {
	for _, rule := range e.counters.first.take() {
		e.decided.add(e.Index(), rule)
	}
}

// firstDecisions are the rules that have decided a request for the first time, or for the first time since their counters were forgotten. Each is
// added when its first counter is created, so other decisions cost nothing more.
type firstDecisions struct {
	mu    sync.Mutex
	rules []*matching.Compiled
}

func (f *firstDecisions) add(rule *matching.Compiled) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, rule)
}

// take returns the rules, and forgets them.
func (f *firstDecisions) take() []*matching.Compiled {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.rules
	f.rules = nil
	return taken
}

// decidedRules are the rules of an index that have decided a request. The rates of a policy are several rules.
type decidedRules struct {
	rules    map[*limiter.CountedRule]bool
	policies bitmap // by [matching.Index.NumberOf]
}

// add adds a rule, unless the index has replaced it.
func (d *decidedRules) add(index *matching.Index, rule *matching.Compiled) {
	counted := rule.Counted()
	if next, found := index.RuleOf(rule.Policy); !found || next.Counted() != counted || d.rules[counted] {
		return
	}
	d.rules[counted] = true
	number, _ := index.NumberOf(rule.PolicyName())
	d.policies.set(number)
}

// swap changes from the rules of the previous index, which can be nil, to those of the next one. The cost grows with their differences.
func (d *decidedRules) swap(previous, next *matching.Index, changes []matching.Change, removed []*limiter.CountedRule) {
	for _, rule := range removed {
		delete(d.rules, rule)
	}
	gone, added := next.Renumbered(previous)
	for _, number := range slices.Backward(gone) {
		d.policies.remove(number)
	}
	for _, number := range added {
		d.policies.insert(number)
	}
	for _, change := range changes {
		if change.Old == nil {
			continue
		}
		policy := change.Old.PolicyName()
		if number, found := next.NumberOf(policy); found && d.policies.has(number) && !d.haveRates(next, policy) {
			d.policies.clear(number)
		}
	}
}

// haveRates reports whether a rule of the policy has decided.
func (d *decidedRules) haveRates(index *matching.Index, policy string) bool {
	for c := range index.RatesOf(policy) {
		if d.rules[c.Counted()] {
			return true
		}
	}
	return false
}

// bitmap has a bit for each number from 0: bit i%8 of byte i/8 is that of number i. The last byte is not zero.
type bitmap []byte

func (b *bitmap) has(i int) bool { return i/8 < len(*b) && (*b)[i/8]>>(i%8)&1 == 1 }

func (b *bitmap) set(i int) {
	if missing := i/8 + 1 - len(*b); missing > 0 {
		*b = append(*b, make([]byte, missing)...)
	}
	(*b)[i/8] |= 1 << (i % 8)
}

func (b *bitmap) clear(i int) {
	if i/8 < len(*b) {
		(*b)[i/8] &^= 1 << (i % 8)
		b.trim()
	}
}

func (b *bitmap) trim() { *b = bytes.TrimRight(*b, "\x00") }

// insert inserts a number without its bit. The bits of this and of all higher numbers move up by one.
func (b *bitmap) insert(i int) {
	at := i / 8
	if at >= len(*b) {
		return
	}
	bits := append(*b, 0)
	for j := len(bits) - 1; j > at; j-- {
		bits[j] = bits[j]<<1 | bits[j-1]>>7
	}
	lower := bits[at] & (1<<(i%8) - 1)
	bits[at] = (bits[at]&^lower)<<1 | lower
	*b = bits
	b.trim()
}

// remove removes a number with its bit. The bits of all higher numbers move down by one.
func (b *bitmap) remove(i int) {
	at := i / 8
	if at >= len(*b) {
		return
	}
	bits := append(*b, 0)
	lower := bits[at] & (1<<(i%8) - 1)
	bits[at] = bits[at]>>1&^(1<<(i%8)-1) | lower | bits[at+1]<<7
	for j := at + 1; j < len(bits)-1; j++ {
		bits[j] = bits[j]>>1 | bits[j+1]<<7
	}
	*b = bits
	b.trim()
}
