package pattern

const (
	// MaxPath is how many bytes of the path of a request are looked up. The longest path of a policy has 512 bytes.
	MaxPath = 8 << 10
	// MaxHost is the length of the longest host name, in bytes.
	MaxHost = 253
)

// Lengths is a set of lengths. A client chooses how many prefixes its path has; the set avoids to look up those that no rule has.
type Lengths []uint64

// With returns the set with n.
func (l Lengths) With(n int) Lengths {
	for n/64 >= len(l) {
		l = append(l, 0)
	}
	l[n/64] |= 1 << (n % 64)
	return l
}

// Has reports whether the set has n.
func (l Lengths) Has(n int) bool { return n/64 < len(l) && l[n/64]&(1<<(n%64)) != 0 }

// Longest returns an upper bound of the lengths.
func (l Lengths) Longest() int { return 64*len(l) - 1 }
