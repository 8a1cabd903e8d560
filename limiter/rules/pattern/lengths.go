package pattern

import (
	"iter"
	"slices"
)

const (
	// MaxPath is how many bytes of the path of a request are looked up. The longest path of a policy has 512 bytes.
	MaxPath = 8 << 10
	// MaxHost is the length of the longest host name, in bytes.
	MaxHost = 253
)

// Lengths is a set of lengths of keys. A client chooses how many prefixes its path has; the set avoids to look up those that no rule has. A change
// returns another set, and does not change the one that it is called for.
type Lengths []uint64

// With returns the set with n.
func (l Lengths) With(n int) Lengths {
	if l.Has(n) || n > MaxPath { // a longer key is not looked up
		return l
	}
	l = append(make(Lengths, 0, max(len(l), n/64+1)), l...)
	l = l[:cap(l)]
	l[n/64] |= 1 << (n % 64)
	return l
}

// Without returns the set without n, unless one of the keys has this length.
func (l Lengths) Without(n int, keys iter.Seq[string]) Lengths {
	for key := range keys {
		if len(key) == n {
			return l
		}
	}
	if !l.Has(n) {
		return l
	}
	l = slices.Clone(l)
	l[n/64] &^= 1 << (n % 64)
	for len(l) > 0 && l[len(l)-1] == 0 {
		l = l[:len(l)-1]
	}
	return l
}

// Has reports whether the set has n.
func (l Lengths) Has(n int) bool { return n/64 < len(l) && l[n/64]&(1<<(n%64)) != 0 }

// Longest returns an upper bound of the lengths.
func (l Lengths) Longest() int { return 64*len(l) - 1 }
