package rules

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter"
)

// hashPrefix marks what a person writes as the hash of a secret. A secret can look like a hash, and must not become part of a key.
const hashPrefix = "hash:"

// CountsText reports whether the rule can count text as it is, so that the text becomes part of a key. A rule whose identifiers are secrets
// or addresses does not.
func (c *Compiled) CountsText(text string) bool {
	return !c.Identifier.Secret && !c.countsAddresses() && !limiter.IsPlaceholder(text)
}

func (c *Compiled) countsAddresses() bool {
	return c.Identifier.From == FromClientIP || c.Identifier.Address
}

// CountedAs returns the identifiers under which the rule can count what a person writes: an address in its canonical form, and a secret as its
// hash, unless it is a hash behind "hash:".
func (c *Compiled) CountedAs(text string) []string {
	if limiter.IsPlaceholder(text) {
		return []string{text}
	}
	if c.countsAddresses() {
		text, _, _ = strings.Cut(text, "/") // a prefix, as answers show it
		if text = address(text, c.Identifier.IPv6Prefix); text == "" {
			return nil
		}
	}
	if c.Identifier.Secret {
		if hash, is := strings.CutPrefix(text, hashPrefix); is {
			return []string{hash}
		}
		return []string{c.hashKey.Hash(text)}
	}
	return []string{text}
}

// LimitOf returns the limit of an identifier, and the name of its tier: the first tier that lists the identifier, or the limit of the rule. It
// does not know tiers that depend on other parts of a request.
func (c *Compiled) LimitOf(identifier string) (limit limiter.Limit, tier string, unlimited bool) {
	for i := range c.tiers {
		if t := &c.tiers[i]; slices.Contains(t.When.Identifiers, identifier) {
			return t.limit, t.Name, t.Unlimited
		}
	}
	return c.Limit, "", false
}

// LargestLimit returns the limit of the rule or of one of its tiers, whichever admits most.
func (c *Compiled) LargestLimit() limiter.Limit {
	largest := c.Limit
	for i := range c.tiers {
		if t := &c.tiers[i]; !t.Unlimited && t.limit.Capacity() > largest.Capacity() {
			largest = t.limit
		}
	}
	return largest
}
