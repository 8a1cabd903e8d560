package limiter

// Packed is a [State] of fixed size without pointers, for holders of very many: a garbage collection does not look at it. The zero Packed is
// the state of a key on which nothing was spent. Its meaning depends on the algorithm.
type Packed [4]int64

// Packs reports whether states under the algorithm of l can be packed. The size of a log depends on what was spent.
func (l Limit) Packs() bool { return l.Traits().unpack != nil }

// Pack returns s as a Packed. It panics for a state that cannot be packed, see [Limit.Packs].
func Pack(s State) Packed {
	packed, packs := s.(interface{ pack() Packed })
	if !packs {
		panic("limiter: Pack: the state of a log")
	}
	return packed.pack()
}

// Unpack returns the state under the algorithm of limit. It panics unless limit packs, see [Limit.Packs].
func (p Packed) Unpack(limit Limit) State {
	if !limit.Packs() {
		panic("limiter: Unpack: the state of a log")
	}
	return limit.traits.unpack(p)
}

// UnpackInto is Unpack into a state under the same algorithm that is not used any more, to save an allocation. It returns s.
func (p Packed) UnpackInto(s State) State {
	reused, packs := s.(interface{ unpack(p Packed) })
	if !packs {
		panic("limiter: UnpackInto: the state of a log")
	}
	reused.unpack(p)
	return s
}

// Assume is [State.Assume] for a Packed: it returns the new state, and from when on that equals the zero Packed. It allocates nothing.
func (p Packed) Assume(now Instant, limit Limit, used int64) (next Packed, expires Instant) {
	if !limit.Packs() {
		panic("limiter: Assume: the state of a log")
	}
	return limit.traits.assume(p, now, limit, used)
}
