package rules

import (
	"net/netip"
	"strings"

	"github.com/weir-dev/weir/limiter"
)

// defaultIPv6Prefix is the prefix an IPv6 client owns: counting single addresses would be no limit at all.
const defaultIPv6Prefix = 64

// Identify returns the identifier under which m's rule counts r, "" if the request carries none, or its expression fails.
// Secrets come back hashed; addresses, the client's or read from text, as IPv4 where they are mapped into IPv6, and
// else as their prefix, /64 unless the rule says another.
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

// address returns the clientPrefix that an address in text stands for, "" if the text is no address.
func address(text string, ipv6Bits int) string {
	ip, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil {
		return ""
	}
	return clientPrefix(ip, ipv6Bits)
}

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

// Key returns the counter's key for r's identifier.
func (m Matched) Key(identifier string) string {
	if m.Rule.PerEndpoint {
		return m.Rule.Keys.Key(identifier, m.Endpoint)
	}
	return m.Rule.Keys.Key(identifier, "")
}

// KeyFor is Key for an identifier that is held to another limit than the rule's: a counter by itself.
func (m Matched) KeyFor(identifier string, limit limiter.Limit) string {
	endpoint := ""
	if m.Rule.PerEndpoint {
		endpoint = m.Endpoint
	}
	return m.Rule.keysFor(limit).Key(identifier, endpoint)
}
