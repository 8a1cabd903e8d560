package matching

import (
	"cmp"
	"errors"
	"net/netip"
	"strings"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
)

// source is a compiled source of identifiers.
type source struct {
	rules.Identifier

	prefix     string           // of its identifiers, if it is a fallback
	expression *expr.Expression // of an Identifier from one
	ofRequest  bool             // it depends on nothing but the request: not on the path pattern or the descriptor that matched
}

// Identify returns the identifier of r under the rule, or "" if the request has no identifier or [Matched.Unreadable]. Secrets are
// hashed. An IPv6 address is returned as its prefix, /64 unless the rule has another prefix length, or as the IPv4 address that it contains,
// see [clientip.Client]. An identifier from a fallback begins with its [rules.Identifier.Prefix].
func (m Matched) Identify(r *rules.Request) string {
	for i := range m.Rule.sources {
		from := &m.Rule.sources[i]
		if value := m.identifyFrom(from, r); value != "" && (i > 0 || !m.Rule.isReserved(value)) {
			if from.prefix == "" {
				return value
			}
			return from.prefix + value
		}
	}
	return ""
}

// SharesIdentifier reports whether each request has the same identifier under both rules, so that the caller need not call Identify again. It is false
// if that depends on the request. The rates of a policy count by the same identifier.
func (c *Compiled) SharesIdentifier(other *Compiled) bool {
	return len(c.sources) == 1 && len(other.sources) == 1 && c.sources[0].ofRequest && c.sources[0].Identifier == other.sources[0].Identifier &&
		c.hashKey == other.hashKey
}

// identifyFrom returns the identifier of one source, without the prefix.
func (m Matched) identifyFrom(from *source, r *rules.Request) string {
	value := m.text(from, r)
	if from.Address {
		value = rules.ClientIdentifier(value, from.IPv6Prefix)
	}
	if from.Secret && value != "" {
		return m.Rule.hashKey.Hash(value)
	}
	return value
}

// isReserved reports whether an identifier from the first source is one of a fallback. It is then unreadable: a client that chooses its
// identifier must not spend the units of another client.
func (c *Compiled) isReserved(identifier string) bool {
	for i := range c.sources[1:] {
		if strings.HasPrefix(identifier, c.sources[1+i].prefix) {
			return true
		}
	}
	return false
}

// isSkipped reports whether the rule does not match r, because r has no identifier.
func (m Matched) isSkipped(r *rules.Request) bool {
	return m.Rule.OnMissing == rules.SkipMissing && m.Identify(r) == "" && !m.Unreadable(r)
}

// text returns the identifier as the request carries it.
func (m Matched) text(id *source, r *rules.Request) string {
	switch id.From {
	case rules.FromClientIP:
		return clientPrefix(r.ClientIP, id.IPv6Prefix)
	case rules.FromHeader:
		value, isAmbiguous := id.header(r)
		return unlessAmbiguous(value, isAmbiguous)
	case rules.FromQuery:
		return unlessAmbiguous(r.Parameter(id.Name))
	case rules.FromCookie:
		value, _ := r.Cookie(id.Name) // "" if it is malformed or ambiguous
		return value
	case rules.FromClaim:
		return rules.ScalarText(rules.FindClaim(r.Claims, id.Name))
	case rules.FromDescriptor:
		return m.descriptorValue(r, id.Name)
	case rules.FromExpression:
		value, _ := m.evaluated(id.expression, r) // "" after a failure
		return value
	case rules.FromEndpoint:
		return m.Endpoint
	case rules.FromKubernetesTenant:
		return m.tenant(r.Kubernetes)
	case rules.FromKubernetesNamespace:
		return r.Kubernetes.Namespace
	case rules.FromKubernetesUser:
		return r.Kubernetes.User
	case rules.FromServiceAccount:
		return rules.ServiceAccount(r.Kubernetes.User)
	default:
		return ""
	}
}

// unlessAmbiguous returns "" for an ambiguous value: servers read different parts of it, so that a client could choose a new identifier for each
// request and still be served as the same caller.
func unlessAmbiguous(value string, isAmbiguous bool) string {
	if isAmbiguous {
		return ""
	}
	return value
}

// header returns the header with the identifier. It is ambiguous if the request has several lines. A credential with a comma can be several lines
// that a proxy has joined.
func (id *source) header(r *rules.Request) (value string, isAmbiguous bool) {
	value, _ = r.Header(id.Name)
	if strings.HasSuffix(id.Name, "authorization") {
		value = normalAuthorization(value)
	}
	return value, r.IsRepeated(id.Name) || id.Secret && strings.Contains(value, ",")
}

// normalAuthorization returns credentials in one spelling: the case of the scheme and the number of spaces after it do not matter.
func normalAuthorization(value string) string {
	scheme, credentials, found := strings.Cut(strings.ReplaceAll(value, "\t", " "), " ")
	if !found || scheme == "" {
		return value
	}
	return strings.ToUpper(scheme[:1]) + strings.ToLower(scheme[1:]) + " " + strings.TrimSpace(credentials)
}

// evaluated returns the result of the expression of the identifier. If it depends on how a service reads the path or the query, it is a failure:
// the client would choose the identifier.
func (m Matched) evaluated(e *expr.Expression, r *rules.Request) (string, error) {
	on := m.activation(r)
	if !e.Reads.IsAmbiguous(r) {
		return e.Text(on, &m.Rule.Rule)
	}
	requests, complete := on.Repeated()
	value, err := e.Text(on.Reading(&requests[0]), &m.Rule.Rule)
	for i := range requests[1:] {
		if other, failed := e.Text(on.Reading(&requests[1+i]), &m.Rule.Rule); other != value || (failed == nil) != (err == nil) {
			complete = false
		}
	}
	if !complete {
		return "", expr.EvaluationError{Err: errAmbiguous}
	}
	return value, err
}

var errAmbiguous = errors.New("servers can read the path or the query in different ways, which lead to different identifiers")

// Unreadable reports whether r carries something that cannot be read as the identifier of the rule: a text that is no address, a
// malformed cookie, a value that servers read in different ways, a claim that is a list or an object, claims that do not fit in the request, or
// something that makes the expression fail. Call it only if Identify has returned "".
func (m Matched) Unreadable(r *rules.Request) bool {
	for i := range m.Rule.sources {
		if from := &m.Rule.sources[i]; m.isUnreadable(from, r) || i == 0 && m.Rule.isReserved(m.identifyFrom(from, r)) {
			return true
		}
	}
	return false
}

// isUnreadable is Unreadable for one source, from which the request has no identifier.
func (m Matched) isUnreadable(id *source, r *rules.Request) bool {
	switch id.From {
	case rules.FromClientIP:
		return r.InvalidClientIP
	case rules.FromHeader:
		if _, isAmbiguous := id.header(r); isAmbiguous {
			return true
		}
	case rules.FromQuery:
		if _, isAmbiguous := r.Parameter(id.Name); isAmbiguous {
			return true
		}
	case rules.FromCookie:
		if _, err := r.Cookie(id.Name); err != nil {
			return true
		}
	case rules.FromClaim:
		if claim := rules.FindClaim(r.Claims, id.Name); claim == nil && r.MissingClaims || claim != nil && claim != "" && rules.ScalarText(claim) == "" {
			return true
		}
	case rules.FromExpression:
		_, err := m.evaluated(id.expression, r)
		if f, failed := errors.AsType[expr.EvaluationError](err); failed || r.MissingClaims { // the expression may read one of them
			return r.MissingClaims || !f.Absent
		}
	}
	return id.Address && m.text(id, r) != ""
}

// clientPrefix returns the identifier of an address, or "" for an unknown address.
func clientPrefix(ip netip.Addr, ipv6Bits int) string {
	ip = clientip.Plain(ip)
	return clientip.Identifier(netip.PrefixFrom(ip, ip.BitLen()), cmp.Or(ipv6Bits, rules.DefaultIPv6Prefix))
}

// Key returns the key of the counter for the identifier.
func (m Matched) Key(identifier string) string {
	return m.Rule.Keys.Key(identifier, m.CountedEndpoint())
}

// AppendKey appends the key that Key returns to text.
func (m Matched) AppendKey(text []byte, identifier string) []byte {
	return m.Rule.Keys.AppendKey(text, identifier, m.CountedEndpoint())
}

// KeyFor returns the key of the counter for the identifier under another limit than the limit of the rule. Limits with the same window share a
// counter, which is not that of the rule's own limit.
func (m Matched) KeyFor(identifier string, limit limiter.Limit) string {
	return m.Rule.Counted().KeysFor(limit).Key(identifier, m.CountedEndpoint())
}

// UnreadableKey returns the key of the counter for requests whose identifier cannot be read.
func (m Matched) UnreadableKey() string { return m.Rule.Keys.UnreadableKey(m.CountedEndpoint()) }

// UnreadableKeyFor is UnreadableKey under another limit, as KeyFor.
func (m Matched) UnreadableKeyFor(limit limiter.Limit) string {
	return m.Rule.Counted().KeysFor(limit).UnreadableKey(m.CountedEndpoint())
}

// CountedEndpoint returns the endpoint that is counted separately, or "".
func (m Matched) CountedEndpoint() string {
	if m.Rule.PerEndpoint {
		return m.Endpoint
	}
	return ""
}
