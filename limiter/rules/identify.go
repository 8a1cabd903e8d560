package rules

import (
	"cmp"
	"errors"
	"net/netip"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/clientip"
)

// defaultIPv6Prefix is the prefix length, in bits, that identifies an IPv6 client. A client that owns a /64 could use a new address for
// each request.
const defaultIPv6Prefix = 64

// Identify returns the identifier of r under the rule, or "" if the request has no identifier or [Matched.Unreadable]. Secrets are
// hashed. An IPv6 address is returned as its prefix, /64 unless the rule has another prefix length, or as the IPv4 address that it contains,
// see [clientip.Client].
func (m Matched) Identify(r *Request) string {
	id := m.Rule.Identifier
	value := m.text(r)
	if id.Address {
		value = ClientIdentifier(value, id.IPv6Prefix)
	}
	if id.Secret && value != "" {
		return m.Rule.hashKey.Hash(value)
	}
	return value
}

// text returns the identifier as the request carries it.
func (m Matched) text(r *Request) string {
	id := &m.Rule.Identifier
	switch id.From {
	case FromClientIP:
		return clientPrefix(r.ClientIP, id.IPv6Prefix)
	case FromHeader:
		return r.Headers[id.Name]
	case FromQuery:
		if values := r.Query[id.Name]; len(values) > 0 {
			return values[0]
		}
		return ""
	case FromCookie:
		value, _ := r.Cookie(id.Name) // "" if it is malformed
		return value
	case FromClaim:
		return scalarText(findClaim(r.Claims, id.Name))
	case FromDescriptor:
		return m.descriptorValue(r, id.Name)
	case FromExpression:
		value, _ := m.evaluated(r) // "" after a failure
		return value
	case FromEndpoint:
		return m.Endpoint
	case FromKubernetesTenant:
		return m.tenant(r.Kubernetes)
	case FromKubernetesNamespace:
		return r.Kubernetes.Namespace
	case FromKubernetesUser:
		return r.Kubernetes.User
	case FromServiceAccount:
		return ServiceAccount(r.Kubernetes.User)
	default:
		return ""
	}
}

// evaluated returns the result of the expression of the identifier. If it depends on how a service reads the path, it is a failure: the
// client would choose the identifier.
func (m Matched) evaluated(r *Request) (string, error) {
	e, on := m.Rule.identifier, m.activation(r)
	if r.RawPath == "" || !e.readsPath {
		return e.text(on, m.Rule)
	}
	requests, complete := on.repeated()
	value, err := e.text(on.reading(&requests[0]), m.Rule)
	for i := range requests[1:] {
		if other, failed := e.text(on.reading(&requests[1+i]), m.Rule); other != value || (failed == nil) != (err == nil) {
			complete = false
		}
	}
	if !complete {
		return "", failure{error: errAmbiguousPath}
	}
	return value, err
}

var errAmbiguousPath = errors.New("servers can read the path in different ways, which lead to different identifiers")

// Unreadable reports whether r carries something that cannot be read as the identifier of the rule: a text that is no address, a malformed cookie, a
// claim that is a list or an object, claims that do not fit in the request, or something that makes the expression fail. Call it only if Identify
// has returned "".
func (m Matched) Unreadable(r *Request) bool {
	id := &m.Rule.Identifier
	switch id.From {
	case FromClientIP:
		return r.InvalidClientIP
	case FromCookie:
		if _, err := r.Cookie(id.Name); err != nil {
			return true
		}
	case FromClaim:
		if claim := findClaim(r.Claims, id.Name); claim == nil && r.MissingClaims || claim != nil && claim != "" && scalarText(claim) == "" {
			return true
		}
	case FromExpression:
		_, err := m.evaluated(r)
		if f, failed := errors.AsType[failure](err); failed || r.MissingClaims { // the expression may read one of them
			return r.MissingClaims || !f.absent
		}
	}
	return id.Address && m.text(r) != ""
}

// clientPrefix returns the identifier of an address, or "" for an unknown address.
func clientPrefix(ip netip.Addr, ipv6Bits int) string {
	ip = clientip.Plain(ip)
	return clientip.Identifier(netip.PrefixFrom(ip, ip.BitLen()), cmp.Or(ipv6Bits, defaultIPv6Prefix))
}

// ClientIdentifier returns the identifier of an address or a network under rules that count clients by address, or "" if the text is neither.
// ipv6Bits is the prefix length of an IPv6 client, 0 for the default.
func ClientIdentifier(text string, ipv6Bits int) string {
	network, _ := clientip.ParseNetwork(text)
	return clientip.Identifier(network, cmp.Or(ipv6Bits, defaultIPv6Prefix))
}

// Key returns the key of the counter for the identifier.
func (m Matched) Key(identifier string) string { return m.Rule.Keys.Key(identifier, m.counted()) }

// SharedKey returns the key of the counter that identifiers without a counter of their own share. If isOverride, the limit replaces
// that of the rule, as in KeyFor.
func (m Matched) SharedKey(limit limiter.Limit, isOverride bool) string {
	endpoint, keys := "", m.Rule.Keys
	if m.Rule.PerEndpoint {
		endpoint = m.Endpoint
	}
	if isOverride {
		keys = m.Rule.keysFor(limit)
	}
	return keys.SharedKey(endpoint)
}

// KeyFor returns the key of the counter for the identifier under another limit than the limit of the rule. It is a separate counter.
func (m Matched) KeyFor(identifier string, limit limiter.Limit) string {
	return m.Rule.keysFor(limit).Key(identifier, m.counted())
}

// UnreadableKey returns the key of the counter for requests whose identifier cannot be read.
func (m Matched) UnreadableKey() string { return m.Rule.Keys.UnreadableKey(m.counted()) }

// UnreadableKeyFor is UnreadableKey under another limit, as KeyFor.
func (m Matched) UnreadableKeyFor(limit limiter.Limit) string {
	return m.Rule.keysFor(limit).UnreadableKey(m.counted())
}

// counted returns the endpoint that is counted separately, or "".
func (m Matched) counted() string {
	if m.Rule.PerEndpoint {
		return m.Endpoint
	}
	return ""
}
