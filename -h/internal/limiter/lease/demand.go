package lease

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

const (
	demandSlots = 1 << 15
	demandTick  = instant(500 * time.Millisecond)
	// busy is the number of charges in one tick, or in the one before it, from which on a counter is considered for leases.
	busy = 4
)

// demand finds the counters that this replica charges often, in a fixed amount of memory. Each slot counts the charges of one counter. The
// charges of others that fall into the slot reduce its count, and replace it at 0: so a flood of counters that are charged once does not
// hide one that is charged often.
type demand struct {
	seed  maphash.Seed
	slots [demandSlots]atomic.Uint64 // fingerprint: 32 bits, tick: 16 bits, count: 16 bits
}

// add counts a charge and reports whether the counter is busy.
func (d *demand) add(key string, now instant) bool {
	hash := maphash.String(d.seed, key)
	slot := &d.slots[hash%demandSlots]
	was := slot.Load()
	fingerprint, tick := uint32(hash>>32), uint16(now/demandTick)
	held, counted, count := uint32(was>>32), uint16(was>>16), uint16(was)
	switch age := tick - counted; {
	case age > 1:
		count = 0
	case age == 1:
		count /= 2
	}
	switch {
	case held == fingerprint || count == 0:
		held = fingerprint
		count = min(count+1, busy)
	default:
		count--
	}
	// A lost race loses one count.
	slot.CompareAndSwap(was, uint64(held)<<32|uint64(tick)<<16|uint64(count))
	return held == fingerprint && count >= busy
}
