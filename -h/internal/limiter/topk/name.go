package topk

import "strings"

// maxText is the length of the longest identifier that is kept whole, in bytes.
const maxText = 63

// name is a copy of the name of a counter: an identifier can be a part of a large request.
type name struct {
	policy string
	length uint8 // of the identifier; maxText+1 if it is longer than text
	text   [maxText]byte
}

func (n *name) set(policy, identifier string) {
	n.policy = policy
	n.length = uint8(min(len(identifier), maxText+1))
	copy(n.text[:], identifier)
}

// identifier returns the identifier. A longer one ends with "…".
func (n *name) identifier() string {
	if int(n.length) <= maxText {
		return string(n.text[:n.length])
	}
	const more = "…"
	return strings.ToValidUTF8(string(n.text[:maxText-len(more)]), "") + more
}
