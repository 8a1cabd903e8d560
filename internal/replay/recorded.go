package replay

import (
	"maps"
	"net/netip"
	"strings"

	"github.com/weir-dev/weir/internal/accesslog"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/rules"
)

// restore adds to a request of Weir's decision log what its policies identified it by. The log has identifiers in place of the headers, claims and
// addresses that they come from. Identifiers that are hashed are hashed once more: equal ones stay equal, and different ones different.
func (s *side) restore(q *rules.Request, recorded *accesslog.Recorded) {
	s.restoreFor(q, recorded.Policy, recorded.Axis, recorded.Identifier, recorded.Tier)
	for _, other := range recorded.Others {
		s.restoreFor(q, other.Policy, "", other.Identifier, other.Tier)
	}
}

func (s *side) restoreFor(q *rules.Request, policy, axis, identifier, tier string) {
	rule, found := s.index.RuleOf(policy)
	if !found {
		restoreFrom(q, s.sourceOf(axis), identifier)
		return
	}
	for i := range rule.Tiers {
		if h := rule.Tiers[i].When.Header; rule.Tiers[i].Name == tier && h != nil && h.Type != rules.HeaderRegex && !h.Invert {
			setHeader(q, h.Name, h.Value)
		}
	}
	source, prefix := rule.SourceOf(identifier)
	restoreFrom(q, source, identifier[min(prefix, len(identifier)):])
}

// sourceOf returns the source of the identifiers of a rule with the axis, for a decision of a policy that is not replayed.
func (s *side) sourceOf(axis string) rules.Identifier {
	for _, t := range s.order {
		if t.rule.Axis == axis {
			return t.rule.Identifier
		}
	}
	return rules.Identifier{}
}

// restoreFrom sets what an identifier comes from. Identifiers of expressions and of endpoints cannot be restored, or need not be.
func restoreFrom(q *rules.Request, source rules.Identifier, identifier string) {
	if identifier == "" || limiter.IsPlaceholder(identifier) {
		return
	}
	switch source.From {
	case rules.FromClientIP:
		if ip, ok := addressOf(identifier); ok {
			q.ClientIP = ip
		}
	case rules.FromHeader:
		setHeader(q, source.Name, identifier)
	case rules.FromQuery:
		q.Query = maps.Clone(q.Query)
		if q.Query == nil {
			q.Query = map[string][]string{}
		}
		q.Query[source.Name] = []string{identifier}
	case rules.FromCookie:
		setHeader(q, "cookie", source.Name+"="+identifier)
	case rules.FromClaim:
		setClaim(q, source.Name, identifier)
	case rules.FromDescriptor:
		q.Descriptors = append(q.Descriptors, rules.Descriptor{{Key: source.Name, Value: identifier}})
	}
}

// addressOf returns an address of an identifier: an address, or a network of one client.
func addressOf(identifier string) (netip.Addr, bool) {
	if ip, ok := clientip.Parse(identifier); ok {
		return ip, true
	}
	network, ok := clientip.ParseNetwork(identifier)
	return network.Addr(), ok
}

func setHeader(q *rules.Request, name, value string) {
	headers := make(map[string]string, len(q.Headers)+1)
	maps.Copy(headers, q.Headers)
	if have := headers[name]; name == "cookie" && have != "" {
		value = have + "; " + value
	}
	headers[name] = value
	q.Headers = headers
}

// setClaim sets a claim, which can be nested: "realm.tenant".
func setClaim(q *rules.Request, name, value string) {
	if q.Claims == nil {
		q.Claims = map[string]any{}
	}
	claims := q.Claims
	for {
		outer, inner, isNested := strings.Cut(name, ".")
		if !isNested {
			claims[name] = value
			return
		}
		next, isObject := claims[outer].(map[string]any)
		if !isObject {
			next = map[string]any{}
			claims[outer] = next
		}
		claims, name = next, inner
	}
}
