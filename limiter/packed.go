package limiter

// Packed is a [State] of fixed size without pointers, for holders of very many: a garbage collection does not look at it. The zero Packed is
// the state of a key on which nothing was spent. Its meaning depends on the algorithm.
type Packed [4]int64

// Packs reports whether states under the algorithm of l can be packed. The size of a log depends on what was spent.
func (l Limit) Packs() bool { return l.algorithm != SlidingWindowLog }

// Pack returns s as a Packed. It panics for the state of a log.
func Pack(s State) Packed {
	switch s := s.(type) {
	case *windowCounter:
		return s.pack()
	case *fixedWindow:
		return s.pack()
	case *bucket:
		return s.pack()
	default:
		panic("limiter: Pack: the state of a log")
	}
}

// Unpack returns the state under the algorithm of limit. It panics for a log.
func (p Packed) Unpack(limit Limit) State {
	switch limit.algorithm {
	case SlidingWindowCounter:
		s := unpackCounter(p)
		return &s
	case FixedWindow:
		s := unpackFixed(p)
		return &s
	case TokenBucket, LeakyBucket:
		s := unpackBucket(p)
		return &s
	default:
		panic("limiter: Unpack: the state of a log")
	}
}

// Assume is [State.Assume] for a Packed: it returns the new state, and from when on that equals the zero Packed. It allocates nothing.
func (p Packed) Assume(now Instant, limit Limit, used int64) (next Packed, expires Instant) {
	switch limit.algorithm {
	case SlidingWindowCounter:
		s := unpackCounter(p)
		s.Assume(now, limit, used, now)
		return s.pack(), s.Expires(limit)
	case FixedWindow:
		s := unpackFixed(p)
		s.Assume(now, limit, used, now)
		return s.pack(), s.Expires(limit)
	case TokenBucket, LeakyBucket:
		s := unpackBucket(p)
		s.Assume(now, limit, used, now)
		return s.pack(), s.Expires(limit)
	default:
		panic("limiter: Assume: the state of a log")
	}
}

func (s *windowCounter) pack() Packed { return Packed{s.window, s.current, s.previous} }
func (s *fixedWindow) pack() Packed   { return Packed{s.window, s.count} }
func (s *bucket) pack() Packed        { return Packed{int64(s.at), s.whole, s.part, int64(s.ends)} }
func unpackCounter(p Packed) windowCounter {
	return windowCounter{window: p[0], current: p[1], previous: p[2]}
}
func unpackFixed(p Packed) fixedWindow { return fixedWindow{window: p[0], count: p[1]} }
func unpackBucket(p Packed) bucket {
	return bucket{at: Instant(p[0]), whole: p[1], part: p[2], ends: Instant(p[3])}
}
