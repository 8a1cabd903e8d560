package promise

// Leased returns what remains of a promise if limiters spend units up to age microseconds ahead, and together hold at most held units. It is
// written from docs/concepts/leases.md. It has no equivalent of a LeakyBucket, whose units are not leased.
func Leased(p Promise, age, held int64) []Promise {
	switch p := p.(type) {
	case SlidingWindowLog:
		return []Promise{SlidingWindowLog{Limit: p.Limit, Window: p.Window - age}, SlidingWindowLog{Limit: p.Limit + held, Window: p.Window}}
	case TokenBucket:
		refilled := (p.Limit*age + p.Window - 1) / p.Window
		return []Promise{TokenBucket{Limit: p.Limit, Window: p.Window, Burst: p.Burst + min(refilled, held)}}
	case LeakyBucket:
		panic("promise: a LeakyBucket has no leases")
	default: // a lease ends with its window
		return []Promise{p}
	}
}
