package bypass

import (
	"cmp"
	"strings"
)

// compare orders entries with the same name: lists keep the first one, so that they converge. An ended entry is before one that has not ended.
func compare(a, b *Bypass) int {
	return cmp.Or(
		compareBool(b.EndedBy != "", a.EndedBy != ""),
		compareContent(a, b),
		strings.Compare(a.EndedBy, b.EndedBy),
	)
}

// compareContent compares what an entry has from its creation.
func compareContent(a, b *Bypass) int {
	return cmp.Or(
		a.CreatedAt.Compare(b.CreatedAt),
		a.ExpiresAt.Compare(b.ExpiresAt),
		strings.Compare(a.Policy, b.Policy),
		compareBool(b.Blocks, a.Blocks),
		compareBool(a.AllIdentifiers, b.AllIdentifiers),
		strings.Compare(a.Identifier, b.Identifier),
		strings.Compare(a.CreatedBy, b.CreatedBy),
		strings.Compare(a.Reason, b.Reason),
	)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
