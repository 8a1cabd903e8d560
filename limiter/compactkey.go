package limiter

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// Compact counters of one policy share blocks: a 64-bit hash identifies a counter, two bytes of it select the block, and six are the
// field in the block. The key of the counter is the key of the block, "#" and the field in hex:
// "weir:throttle:tenant:{b3f1}:shop/tenant-daily:k3f9q2wz:0#0c5e9d21a7f4".
const (
	blockBytes    = 2
	fieldBytes    = 6
	compactSuffix = 1 + 2*fieldBytes // "#" and the field
)

// Compact returns the keys of compact counters, see [CompactKey]. The identifiers are hashed with a key that is derived from key, so that
// clients cannot find identifiers that share a counter. Processes that share counters must have the same key. Only FixedWindow and
// SlidingWindowCounter have compact counters.
func (k KeySpace) Compact(key *HashKey) KeySpace {
	sum := sha256.Sum256([]byte("compact" + k.tail))
	k.tail = ":" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5])) + ":0#"
	k.hashKey = key.Derive("compact counters")
	return k
}

func (k KeySpace) appendCompactKey(text []byte, tag, endpoint string) []byte {
	sum := k.hashKey.hash64(tag, endpoint)
	text = hex.AppendEncode(append(text, k.head...), sum[:blockBytes])
	text = append(append(text, k.body...), k.tail...)
	return hex.AppendEncode(text, sum[blockBytes:])
}

// CompactKey returns the key of the block of a compact counter, and its field in the block. isCompact is false for the key of another counter.
func CompactKey(key string) (block string, field [fieldBytes]byte, isCompact bool) {
	suffix := len(key) - compactSuffix
	if suffix < 0 || key[suffix] != '#' {
		return "", field, false
	}
	var digits [2 * fieldBytes]byte
	copy(digits[:], key[suffix+1:])
	if _, err := hex.Decode(field[:], digits[:]); err != nil {
		return "", field, false
	}
	return key[:suffix], field, true
}
