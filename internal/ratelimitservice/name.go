package ratelimitservice

import (
	"strings"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/credentials"
)

// policyName returns the name of the policy for a limit, such as `shop|tenant=acme|user`: its domain and the path to it, so that its
// counters do not depend on other limits. A value that is equal to its key is left out, as in `route=`. Different limits have different
// names, because the characters |, = and \ of a domain, a key and a value are escaped with \. Metrics and logs contain the name, so it has the hash
// of a credential.
func policyName(domain string, path []rules.DescriptorMatch, hashKey *limiter.HashKey) string {
	escape := strings.NewReplacer(`\`, `\\`, `|`, `\|`, `=`, `\=`)
	var b strings.Builder
	b.WriteString(escape.Replace(domain))
	for _, entry := range path {
		b.WriteByte('|')
		b.WriteString(escape.Replace(entry.Key))
		value := shownValue(entry, hashKey)
		if value == "" {
			continue
		}
		b.WriteByte('=')
		if value != entry.Key {
			b.WriteString(escape.Replace(value))
		}
	}
	return b.String()
}

// shownValue returns the value or pattern of an entry, or the hash of a credential.
func shownValue(entry rules.DescriptorMatch, hashKey *limiter.HashKey) string {
	value := entry.Value + entry.Pattern
	if value == "" || value == entry.Key || !(credentials.Names{}).Name(entry.Key) {
		return value
	}
	return rules.HashPrefix + hashKey.Hash(value)
}

// displayName returns the name of a policy as the service prints it, with dots and without escapes, such as "shop.tenant=acme.user".
func displayName(policy string) string {
	return strings.NewReplacer(`\\`, `\`, `\|`, `|`, `\=`, `=`, `|`, `.`).Replace(policy)
}
