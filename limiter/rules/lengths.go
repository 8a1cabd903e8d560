package rules

const (
	// maxPath is how many bytes of the path of a request are looked up. The longest path of a policy has 512 bytes.
	maxPath = 8 << 10
	// maxHost is the length of the longest host name, in bytes.
	maxHost = 253
)

// lengths is a set of lengths. A client chooses how many prefixes its path has; the set avoids to look up those that no rule has.
type lengths []uint64

// with returns the set with n.
func (l lengths) with(n int) lengths {
	for n/64 >= len(l) {
		l = append(l, 0)
	}
	l[n/64] |= 1 << (n % 64)
	return l
}

func (l lengths) has(n int) bool { return n/64 < len(l) && l[n/64]&(1<<(n%64)) != 0 }

// longest returns an upper bound of the lengths.
func (l lengths) longest() int { return 64*len(l) - 1 }
