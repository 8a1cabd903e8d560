package bypass

import (
	"maps"
	"time"
)

// refundable is the time after the end of a bypass in which a request that has passed with it can be refunded.
const refundable = 10 * time.Minute

// maxPassed bounds the memory, because another program can change the Store.
const maxPassed = 2 * maxEntries

// passing is a policy and an identifier, or "" for all identifiers.
type passing struct{ policy, identifier string }

// HasPassed reports whether requests of the identifier pass the policy with a bypass, or did in the last 10 minutes. A refund of such a request
// must not free what others have spent: nothing was charged for it.
func (l *List) HasPassed(policy, identifier string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	l.recordPassed(now)
	for _, p := range []passing{{policy, identifier}, {policy, ""}} {
		if last, has := l.passed[p]; has && now.Sub(last) < refundable {
			return true
		}
	}
	return false
}

// recordPassed records when each bypass was active for the last time. Expired entries must still be in the list. The lock is held.
func (l *List) recordPassed(now time.Time) {
	for _, b := range l.byName {
		if b.EndedBy != "" {
			continue
		}
		last := now
		if now.After(b.ExpiresAt) {
			last = b.ExpiresAt
		}
		l.pass(b, last)
	}
	maps.DeleteFunc(l.passed, func(_ passing, last time.Time) bool { return now.Sub(last) >= refundable })
}

// pass records that b was active at that time. The lock is held.
func (l *List) pass(b *Bypass, passedAt time.Time) {
	if b.Blocks {
		return
	}
	p := passing{b.Policy, b.Identifier}
	if last, has := l.passed[p]; has && passedAt.After(last) || !has && len(l.passed) < maxPassed {
		l.passed[p] = passedAt
	}
}
