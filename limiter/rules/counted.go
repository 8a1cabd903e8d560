package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/clientip"
)

// HashPrefix marks what a person writes as the hash of a secret. A secret can look like a hash, and must not become part of a key.
const HashPrefix = "hash:"

// Hashes reports whether identifier, as the rule counts it, is the hash of a secret.
func (c *Compiled) Hashes(identifier string) bool {
	return c.Identifier.Secret && !limiter.IsPlaceholder(identifier)
}

// CountsText reports whether the rule can count text as it is, so that the text becomes part of a key. A rule whose identifiers are secrets
// or addresses does not.
func (c *Compiled) CountsText(text string) bool {
	return !c.Identifier.Secret && !c.countsAddresses() && !limiter.IsPlaceholder(text)
}

func (c *Compiled) countsAddresses() bool {
	return c.Identifier.From == FromClientIP || c.Identifier.Address
}

// CountedAs returns the identifier under which the rule counts what a person writes: an address in its canonical form, and a secret as its hash,
// unless it is a hash behind "hash:". The error describes a text that is not the identifier of one client, and does not contain it.
func (c *Compiled) CountedAs(text string) (string, error) {
	if limiter.IsPlaceholder(text) {
		return text, nil
	}
	if c.countsAddresses() {
		var err error
		if text, err = c.clientOf(text); err != nil {
			return "", err
		}
	}
	if !c.Identifier.Secret {
		return text, nil
	}
	if hash, is := strings.CutPrefix(text, HashPrefix); is {
		return hash, nil
	}
	return c.hashKey.Hash(text), nil
}

// clientOf returns the identifier of an address, or of a prefix as answers show it.
func (c *Compiled) clientOf(text string) (string, error) {
	client := ClientIdentifier(text, c.Identifier.IPv6Prefix)
	if client == "" {
		return "", fmt.Errorf("is no address, and policy %s counts by address", c.Policy)
	}
	if _, is := clientip.Parse(text); is {
		return client, nil
	}
	given, _ := clientip.ParseNetwork(text)
	own, _ := clientip.ParseNetwork(client)
	bits := cmp.Or(c.Identifier.IPv6Prefix, defaultIPv6Prefix)
	isHost := own.IsSingleIP() || own.Addr().Is6() && own.Bits() == bits
	if given != own || c.Identifier.From == FromClientIP && !isHost { // a header can contain a network, a connection has one address
		return "", fmt.Errorf("is not one client: policy %s counts each IPv4 address and each IPv6 /%d separately. Name one of them", c.Policy, bits)
	}
	return client, nil
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
