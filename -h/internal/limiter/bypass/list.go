package bypass

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxPerNamespace is the number of active bypasses for the policies of one namespace.
	MaxPerNamespace = 100
	// maxEntriesPerNamespace also counts those that have ended, which remain until they expire: so one namespace cannot fill a List.
	maxEntriesPerNamespace = 500
	// maxEntries is the number of entries of a List, also ended ones.
	maxEntries = 5000
	// maxBytesPerNamespace and maxBytes bound the entries as JSON, which writes a byte of a text as up to six. Usual entries have 500 bytes. The
	// Store has room for the lists of four groups of processes that cannot reach it.
	maxBytesPerNamespace, maxBytes = 1 << 20, 4 << 20
)

// List is the list of a process. It is safe for concurrent use.
type List struct {
	clock   func() time.Time
	changed chan struct{} // has a value if Run must call the Store
	active  atomic.Pointer[Active]

	failures atomic.Int64 // exchanges with the Store that failed

	mu     sync.Mutex
	byName map[string]*Bypass // those that have not expired; replaced, never changed
	sizes  map[*Bypass]int    // encodedSize of those that the last call of admit has counted
	passed map[passing]time.Time
}

// NewList returns an empty list. The clock must be the wall clock, because entries come from other machines.
func NewList(clock func() time.Time) *List {
	return &List{clock: clock, changed: make(chan struct{}, 1), byName: map[string]*Bypass{}, passed: map[passing]time.Time{}}
}

// Active returns the active bypasses, nil without any. A nil List is empty.
func (l *List) Active() *Active {
	if l == nil {
		return nil
	}
	return l.active.Load()
}

// Add adds b. If the list has the same bypass, Add returns it, also if it has ended, and changes nothing.
func (l *List) Add(b Bypass) (Bypass, error) {
	now := l.clock()
	if err := b.Validate(now); err != nil {
		return Bypass{}, err
	}
	if !b.IsActive(now) {
		return Bypass{}, fmt.Errorf("the bypass has expired at %v: compare the clocks", b.ExpiresAt.Format(time.RFC3339))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update(now)
	if used := l.byName[b.Name]; used != nil {
		if compareContent(used, &b) != 0 {
			return Bypass{}, fmt.Errorf("the name %s belongs to another bypass: choose another name", b.Name)
		}
		return *used, nil
	}
	if err := l.admit(&b, now); err != nil {
		return Bypass{}, err
	}
	l.byName[b.Name] = &b
	l.update(now)
	l.sync()
	return b, nil
}

// admit returns an error if the list has no room for b. The lock is held.
func (l *List) admit(b *Bypass, now time.Time) error {
	entries, active := 0, 0
	size := encodedSize(b)
	total, bytes := size, size // of all, and of those of the namespace
	sizes := l.sizes
	l.sizes = make(map[*Bypass]int, len(l.byName))
	for _, other := range l.byName {
		size := sizes[other]
		if size == 0 {
			size = encodedSize(other)
		}
		l.sizes[other] = size
		total += size
		if other.Scope() != b.Scope() {
			continue
		}
		bytes += size
		entries++
		if other.IsActive(now) {
			active++
		}
	}
	switch {
	case active >= MaxPerNamespace:
		return fmt.Errorf("the policies %s have %d bypasses and blocks, of at most %d: end some of them, or change the policy",
			b.place(), active, MaxPerNamespace)
	case entries >= maxEntriesPerNamespace:
		return fmt.Errorf("the policies %s have %d bypasses and blocks, of at most %d, with those that have ended: "+
			"wait until some expire, or change the policy",
			b.place(), entries, maxEntriesPerNamespace)
	case len(l.byName) >= maxEntries:
		return fmt.Errorf("the policies of all namespaces have %d bypasses, of at most %d, with those that have ended: wait until some expire, or change the policy",
			len(l.byName), maxEntries)
	case bytes > maxBytesPerNamespace:
		return fmt.Errorf("the bypasses for policies %s would have %d bytes, of at most %d, with those that have ended: "+
			"wait until some expire, or write shorter reasons", b.place(), bytes, maxBytesPerNamespace)
	case total > maxBytes:
		return fmt.Errorf("the bypasses for policies of all namespaces would have %d bytes, of at most %d, with those that have ended: "+
			"wait until some expire, or write shorter reasons", total, maxBytes)
	default:
		return nil
	}
}

// encodedSize returns the size of b as JSON, in bytes.
func encodedSize(b *Bypass) int {
	text, err := json.Marshal(b)
	if err != nil {
		return maxBytes // only a time after the year 9999 has no JSON
	}
	return len(text)
}

// End ends the bypass with this name. It reports false if the list has no such bypass, also if it has expired. A bypass that has ended
// before stays as it is.
func (l *List) End(name, user string) (Bypass, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	b := l.byName[name]
	if b == nil || !now.Before(b.ExpiresAt) {
		return Bypass{}, false
	}
	if b.EndedBy == "" {
		l.recordPassed(now)
		ended := *b
		ended.EndedBy = user[:min(len(user), MaxUser)]
		b = &ended
		l.byName[name] = b
		l.update(now)
		l.sync()
	}
	return *b, true
}

// All returns the bypasses that have not expired, also ended ones, the latest first.
func (l *List) All() []Bypass {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update(l.clock())
	bypasses := make([]Bypass, 0, len(l.byName))
	for _, b := range l.byName {
		bypasses = append(bypasses, *b)
	}
	slices.SortFunc(bypasses, func(a, b Bypass) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.Name, b.Name)) })
	return bypasses
}

// merge merges the entries of the Store, and returns those that the Store must replace.
func (l *List) merge(stored []Bypass) (replace []Bypass) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	current := map[string]bool{} // entries that the Store has as this List has them
	for i := range stored {
		b := &stored[i]
		if b.Validate(now) != nil || !now.Before(b.ExpiresAt) {
			continue
		}
		own := l.byName[b.Name]
		switch {
		case own == nil && len(l.byName) < maxEntries, own != nil && compare(b, own) < 0:
			l.byName[b.Name] = b
			l.pass(b, now) // it can have been active in other processes until now
			current[b.Name] = true
		case own != nil && compare(b, own) == 0:
			current[b.Name] = true
		}
	}
	l.update(now)
	for name, b := range l.byName {
		if !current[name] {
			replace = append(replace, *b)
		}
	}
	return replace
}

// update removes expired entries, and replaces the active ones. The lock is held.
func (l *List) update(now time.Time) {
	l.recordPassed(now)
	maps.DeleteFunc(l.byName, func(_ string, b *Bypass) bool { return !now.Before(b.ExpiresAt) })
	l.active.Store(newActive(l.byName, l.clock))
}

// sync makes Run call the Store.
func (l *List) sync() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}
