package lease

// Drop ends the leases of the counters at keys, and returns none of their units: the counters were reset, so the store does not count them
// any more.
func (l *Leases) Drop(keys ...string) {
	for _, key := range keys {
		if found, ok := l.entries.Load(key); ok {
			if h := found.(*entry).lease.Load(); h != nil { //nolint:forcetypeassert // all its values have this type
				h.end()
			}
		}
	}
}
