package rules

import (
	"net/netip"
	"strings"

	"github.com/weir-dev/weir/limiter"
)

// defaultIPv6Prefix is the prefix length, in bits, that identifies an IPv6 client. A client that owns a /64 could use a new address for
// each request.
const defaultIPv6Prefix = 64

// Identify returns the identifier of r under the rule, or "" if the request has no identifier or the expression fails. Secrets are
// hashed. An IPv4-mapped IPv6 address is returned as IPv4, and any other IPv6 address as its prefix, /64 unless the rule has another
// prefix length.
func (m Matched) Identify(r *Request) string {
	id := m.Rule.Identifier
	var value string
	switch id.From {
	case FromClientIP:
		value = clientPrefix(r.ClientIP, id.IPv6Prefix)
	case FromHeader:
		value = r.Headers[id.Name]
	case FromQuery:
		if values := r.Query[id.Name]; len(values) > 0 {
			value = values[0]
		}
	case FromCookie:
		value = r.Cookie(id.Name)
	case FromClaim:
		value = scalarText(findClaim(r.Claims, id.Name))
	case FromDescriptor:
		value = m.descriptorValue(r, id.Name)
	case FromExpression:
		value = m.Rule.identifier.text(m.activation(r))
	case FromEndpoint:
		value = m.Endpoint
	case FromKubernetesTenant:
		value = m.tenant(r.Kubernetes)
	case FromKubernetesNamespace:
		value = r.Kubernetes.Namespace
	case FromKubernetesUser:
		value = r.Kubernetes.User
	case FromServiceAccount:
		value = ServiceAccount(r.Kubernetes.User)
	}
	if id.Address {
		value = address(value, id.IPv6Prefix)
	}
	if id.Secret && value != "" {
		return limiter.HashSecret(value)
	}
	return value
}

// address parses an address and returns its clientPrefix, or "" if the text is not an address.
func address(text string, ipv6Bits int) string {
	ip, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil {
		return ""
	}
	return clientPrefix(ip, ipv6Bits)
}

// clientPrefix returns an IPv4 address as it is, the prefix of an IPv6 address, or "" for an unknown address.
func clientPrefix(ip netip.Addr, ipv6Bits int) string {
	if ipv6Bits == 0 {
		ipv6Bits = defaultIPv6Prefix
	}
	ip = ip.Unmap()
	switch {
	case !ip.IsValid():
		return ""
	case ip.Is4():
		return ip.String()
	default:
		prefix, err := ip.WithZone("").Prefix(ipv6Bits)
		if err != nil {
			return ""
		}
		return prefix.String()
	}
}

// Key returns the key of the counter for the identifier.
func (m Matched) Key(identifier string) string {
	if m.Rule.PerEndpoint {
		return m.Rule.Keys.Key(identifier, m.Endpoint)
	}
	return m.Rule.Keys.Key(identifier, "")
}

// KeyFor returns the key of the counter for the identifier under another limit than the limit of the rule. It is a separate counter.
func (m Matched) KeyFor(identifier string, limit limiter.Limit) string {
	endpoint := ""
	if m.Rule.PerEndpoint {
		endpoint = m.Endpoint
	}
	return m.Rule.keysFor(limit).Key(identifier, endpoint)
}
