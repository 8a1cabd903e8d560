package limiter

import (
	"crypto/sha256"
	"strconv"
	"strings"
)

// KeyRange selects the keys that begin with Prefix and contain Infix behind it.
type KeyRange struct{ Prefix, Infix string }

// Contains reports whether key is in the range.
func (r KeyRange) Contains(key string) bool {
	rest, ok := strings.CutPrefix(key, r.Prefix)
	return ok && strings.Contains(rest, r.Infix)
}

// All returns the range of the keys of all identifiers that begin with prefix.
func (k KeySpace) All(prefix string) KeyRange { return KeyRange{k.head + escape(prefix), k.body + ":"} }

// Of returns the range of the keys of one identifier, with and without endpoints. The identifier is escaped as in [KeySpace.Key]; Placeholders,
// see [IsPlaceholder], are not.
func (k KeySpace) Of(identifier string) KeyRange {
	tag := identifier
	if !IsPlaceholder(identifier) {
		tag = escapeIdentifier(identifier)
	}
	return KeyRange{Prefix: k.head + tag + k.body + ":"}
}

// Literal returns the key of an identifier as [KeySpace.Parse] returns it, which can be a placeholder, see [IsPlaceholder].
func (k KeySpace) Literal(identifier string) string {
	if IsPlaceholder(identifier) {
		return k.key(identifier, "")
	}
	return k.Key(identifier, "")
}

// IsPlaceholder reports whether identifier is what keys contain in place of an identifier: Missing, Unreadable, the shared counter of
// identifiers over the bound, or the hash of an identifier that is too long.
func IsPlaceholder(identifier string) bool {
	switch identifier {
	case Missing, Unreadable, overflow:
		return true
	}
	sum, isHash := strings.CutPrefix(identifier, "%sha256-")
	if !isHash {
		sum, isHash = strings.CutPrefix(identifier, "%sha256u-")
	}
	return isHash && len(sum) == 2*sha256.Size && strings.Trim(sum, "0123456789abcdef") == ""
}

// Parse returns the identifier and the endpoint of a key. An identifier or an endpoint that was too long for a key is its hash, which begins
// with "%sha256". It reports false for keys of another key space.
func (k KeySpace) Parse(key string) (identifier, endpoint string, ok bool) {
	rest, isHead := strings.CutPrefix(key, k.head)
	tag, rest, isBody := strings.Cut(rest, k.body+":")
	if !isHead || !isBody {
		return "", "", false
	}
	if rest == k.tail[1:] {
		return unescape(tag), "", true
	}
	endpoint, isTail := strings.CutSuffix(rest, k.tail)
	return unescape(tag), unescape(endpoint), isTail
}

// unescape reverses escape. It returns the hash of a long text unchanged.
func unescape(escaped string) string {
	if !strings.Contains(escaped, "%") || strings.HasPrefix(escaped, "%sha256") || escaped == overflow {
		return escaped
	}
	var b strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] == '%' && i+2 < len(escaped) {
			if code, err := strconv.ParseUint(escaped[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(code))
				i += 2
				continue
			}
		}
		b.WriteByte(escaped[i])
	}
	return b.String()
}
