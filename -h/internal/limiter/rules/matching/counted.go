package matching

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/clientip"
	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// Hashes reports whether identifier, as the rule counts it, is the hash of a secret, behind the prefix of its source.
func (c *Compiled) Hashes(identifier string) bool {
	source, _ := c.SourceOf(identifier)
	return source.Secret && !limiter.IsPlaceholder(identifier)
}

// CountsText reports whether the rule can count text as it is, so that the text becomes part of a key. A rule whose identifiers are secrets
// or addresses does not.
func (c *Compiled) CountsText(text string) bool {
	source, _ := c.SourceOf(text)
	return !source.Secret && !source.IsAddress() && !limiter.IsPlaceholder(text)
}

// CountedAs returns the identifier under which the rule counts what a person writes: an address in its canonical form, and a secret as its hash,
// unless it is a hash behind "hash:". An identifier from a fallback begins with its prefix. The error describes a text that is not the identifier
// of one client, and does not contain it.
func (c *Compiled) CountedAs(text string) (string, error) {
	if limiter.IsPlaceholder(text) {
		return text, nil
	}
	source, n := c.SourceOf(text)
	prefix, text := text[:n], text[n:]
	if source.IsAddress() {
		var err error
		if text, err = c.clientOf(source, text); err != nil {
			return "", err
		}
	}
	if !source.Secret {
		return prefix + text, nil
	}
	if hash, ok := strings.CutPrefix(text, rules.HashPrefix); ok {
		return prefix + hash, nil
	}
	return prefix + c.hashKey.Hash(text), nil
}

// clientOf returns the identifier of an address, or of a prefix as answers show it.
func (c *Compiled) clientOf(source rules.Identifier, text string) (string, error) {
	client := rules.ClientIdentifier(text, source.IPv6Prefix)
	if client == "" {
		return "", fmt.Errorf("is no address, and policy %s counts by address", c.Policy)
	}
	if _, ok := clientip.Parse(text); ok {
		return client, nil
	}
	given, _ := clientip.ParseNetwork(text)
	own, _ := clientip.ParseNetwork(client)
	bits := cmp.Or(source.IPv6Prefix, rules.DefaultIPv6Prefix)
	isHost := own.IsSingleIP() || own.Addr().Is6() && own.Bits() == bits
	if given != own || source.From == rules.FromClientIP && !isHost { // a header can contain a network, a connection has one address
		return "", fmt.Errorf("is not one client: policy %s counts each IPv4 address and each IPv6 /%d separately. Name one of them", c.Policy, bits)
	}
	return client, nil
}

// PossibleTier is a tier that requests of an identifier can belong to, or what the rule does with other requests. Then the name is empty.
type PossibleTier struct {
	Name      string
	Limit     limiter.Limit // unless Unlimited
	Unlimited bool
}

// TiersOf returns the tiers that requests of an identifier can belong to, in the order of the rule. There are several if a tier depends on other
// parts of a request.
func (c *Compiled) TiersOf(identifier string) (possible []PossibleTier) {
	for i := range c.tiers {
		t := &c.tiers[i]
		lists := len(t.When.Identifiers) > 0
		if lists && !slices.Contains(t.When.Identifiers, identifier) {
			continue
		}
		possible = append(possible, PossibleTier{t.Name, t.limit, t.Unlimited})
		if lists {
			return possible
		}
	}
	return append(possible, PossibleTier{Limit: c.Limit, Unlimited: c.TiersOnly})
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
