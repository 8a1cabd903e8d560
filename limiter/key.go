package limiter

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// Missing is the identifier under which requests without an identifier are counted.
	Missing = "-"
	// Unreadable is the identifier under which requests are counted whose identifier cannot be read, for example a text that is no address
	// where an address is required. They do not share the counter of Missing: clients can often choose the text.
	Unreadable = "?"
	// overflow stands for identifiers without a counter of their own. No escaped identifier is this text.
	overflow = "%overflow"
	// maxIdentifier is the length of the longest escaped identifier that a key contains unhashed.
	maxIdentifier = 128
	// maxUnescaped is the length of the longest identifier that is escaped before it is hashed. Escaping makes a text up to three times
	// as long, and identifiers come from clients.
	maxUnescaped = 1024
)

// KeySpace is the part of keys that does not depend on the request. Build it once per rule.
type KeySpace struct {
	head string // "weir:throttle:tenant:{"
	body string // "}:shop/tenant-daily"
	tail string // ":k3f9q2wz"
	// hashKey hashes the identifiers of compact counters; nil for other counters.
	hashKey *HashKey
}

// NewKeySpace returns the keys of one scope ("namespace/policy") on one axis. The tail is a hash of the window and the algorithm, so
// that a change of either starts new counters, and a change of the limit does not. The prefix must not contain braces.
func NewKeySpace(prefix, axis, scope string, limit Limit) KeySpace {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", limit.Traits().schema, limit.Algorithm(), limit.micros()))
	return KeySpace{
		head: prefix + "throttle:" + strings.ToLower(axis) + ":{",
		body: "}:" + escape(scope),
		tail: ":" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5])),
	}
}

// Key returns "weir:throttle:tenant:{acme}:shop/tenant-daily:k3f9q2wz", or with an endpoint
// "weir:throttle:tenant:{acme}:shop/tenant-daily:/v1/search:k3f9q2wz". All keys of an identifier share a Redis
// Cluster slot by their hash tag. An empty identifier is counted as [Missing].
func (k KeySpace) Key(identifier, endpoint string) string {
	return k.key(tagOf(identifier), endpoint)
}

// AppendKey appends the key that [KeySpace.Key] returns to text.
func (k KeySpace) AppendKey(text []byte, identifier, endpoint string) []byte {
	return k.appendKey(text, tagOf(identifier), endpoint)
}

// tagOf returns the hash tag of the keys of an identifier, unless they are compact.
func tagOf(identifier string) string {
	if identifier == "" {
		return Missing
	}
	return escapeIdentifier(identifier)
}

// UnreadableKey returns the key under which requests with an unreadable identifier are counted, see [Unreadable].
func (k KeySpace) UnreadableKey(endpoint string) string { return k.key(Unreadable, endpoint) }

// SharedKey returns the key of the counter that identifiers without a counter of their own share. No identifier has this key.
func (k KeySpace) SharedKey(endpoint string) string { return k.key(overflow, endpoint) }

func (k KeySpace) key(tag, endpoint string) string {
	return string(k.appendKey(make([]byte, 0, usualKey), tag, endpoint))
}

// usualKey is the length of a key that needs no memory besides its own, in bytes.
const usualKey = 192

func (k KeySpace) appendKey(text []byte, tag, endpoint string) []byte {
	if k.hashKey != nil {
		return k.appendCompactKey(text, tag, endpoint)
	}
	text = append(append(append(text, k.head...), tag...), k.body...)
	if endpoint != "" {
		text = append(append(text, ':'), bound(escape(endpoint))...)
	}
	return append(text, k.tail...)
}

// Pattern returns the key with "*" for the identifier, for use in a search.
func (k KeySpace) Pattern() string { return k.head + "*" + k.body + ":*" }

func escapeIdentifier(identifier string) string {
	switch identifier {
	case Missing:
		return "%2D" // a literal "-" is not a missing identifier
	case Unreadable:
		return "%3F"
	}
	if len(identifier) > maxUnescaped {
		sum := sha256.Sum256([]byte(identifier))
		return "%sha256u-" + hex.EncodeToString(sum[:])
	}
	return bound(escape(identifier))
}

// bound replaces a text that is too long by its hash. No escaped text begins with "%sha256".
func bound(escaped string) string {
	if len(escaped) <= maxIdentifier {
		return escaped
	}
	sum := sha256.Sum256([]byte(escaped))
	return "%sha256-" + hex.EncodeToString(sum[:])
}

// isEscaped has the bytes that escape encodes. Keys are made for each charge, and a table is faster than a search in a list of bytes.
var isEscaped = func() (table [256]bool) { //nolint:gochecknoglobals // a table
	for c := range table {
		table[c] = c <= ' ' || c >= 0x7f || strings.IndexByte("{}:%*", byte(c)) >= 0
	}
	return table
}()

// escape percent-encodes every byte that could change a key's structure or slot: braces, colon, percent, asterisk, space, control
// characters and all bytes outside ASCII. It is reversible.
func escape(s string) string {
	plain := 0
	for plain < len(s) && !isEscaped[s[plain]] {
		plain++
	}
	if plain == len(s) {
		return s
	}
	const digits = "0123456789ABCDEF"
	b := append(make([]byte, 0, 3*len(s)), s[:plain]...)
	for i := plain; i < len(s); i++ {
		if isEscaped[s[i]] {
			b = append(b, '%', digits[s[i]>>4], digits[s[i]&0xf])
		} else {
			b = append(b, s[i])
		}
	}
	return string(b)
}
