package rules

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter"
)

// CountedAs returns the identifiers under which the rule can count what a person writes: an address in its canonical form, a secret as its
// hash, and a text that already is one as it is.
func (c *Compiled) CountedAs(text string) []string {
	if text == limiter.Missing || text == limiter.Unreadable {
		return []string{text}
	}
	if c.Identifier.From == FromClientIP || c.Identifier.Address {
		text, _, _ = strings.Cut(text, "/") // a prefix, as answers show it
		if text = address(text, c.Identifier.IPv6Prefix); text == "" {
			return nil
		}
	}
	if c.Identifier.Secret {
		counted := []string{c.hashKey.Hash(text)}
		if len(text) == len(counted[0]) && strings.Trim(text, "0123456789abcdef") == "" { // otherwise a secret would become part of a key
			counted = append(counted, text)
		}
		return counted
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
