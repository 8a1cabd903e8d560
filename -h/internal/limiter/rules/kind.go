package rules

import "slices"

// RequestKinds is a set of kinds of requests.
type RequestKinds uint8

// The kinds of requests.
const (
	PlainHTTP           RequestKinds = 1 << iota // an HTTP request without descriptors
	HTTPWithDescriptors                          // an HTTP request with descriptors, for example from ext_authz
	OnlyDescriptors                              // descriptors without an HTTP request, from Envoy's rate limit filter
	KubernetesWrites
)

// Kinds returns the kinds of requests that the rule can match. A rule that matches parts of HTTP requests, descriptors or writes to the
// Kubernetes API matches only requests that have these parts. A rule without a match matches all requests that can carry its identifier,
// except writes to the Kubernetes API. Otherwise requests without its identifier would share one counter, for example all descriptors
// of a domain whose policies count by a header.
func (r *Rule) Kinds() RequestKinds {
	if r.Match.Kubernetes != nil {
		return KubernetesWrites
	}
	kinds := PlainHTTP | HTTPWithDescriptors | OnlyDescriptors
	noMatch := len(r.Match.Descriptors) == 0 && !r.Match.readsHTTP() // a match of routes selects no part of the request
	if r.Match.readsHTTP() || noMatch && (r.PerEndpoint || r.readsOnly(IdentifierSource.isHTTP)) {
		kinds &^= OnlyDescriptors
	}
	if len(r.Match.Descriptors) > 0 || r.Match.Routes != nil || noMatch && r.readsOnly(IdentifierSource.isDescriptor) {
		kinds &^= PlainHTTP
	}
	return kinds
}

// readsHTTP reports whether m has conditions of match.http.
func (m *Match) readsHTTP() bool {
	return len(m.Hosts)+len(m.Paths)+len(m.Methods)+len(m.Headers)+len(m.CIDRs)+len(m.ExceptCIDRs)+len(m.Expression) > 0 && m.Kubernetes == nil
}

// readsOnly reports whether all sources are of a kind. A client address in place of another identifier is of every kind.
func (r *Rule) readsOnly(kind func(IdentifierSource) bool) bool {
	return kind(r.Identifier.From) &&
		!slices.ContainsFunc(r.Fallbacks, func(f Identifier) bool { return f.From != FromClientIP && !kind(f.From) })
}

func (s IdentifierSource) isDescriptor() bool { return s == FromDescriptor }

// isHTTP reports whether only HTTP requests have the source. The verified claims of a token arrive with the HTTP request.
func (s IdentifierSource) isHTTP() bool {
	switch s {
	case FromHeader, FromQuery, FromCookie, FromClaim, FromEndpoint:
		return true
	default:
		return false
	}
}

// Kind returns the kind of r. Descriptors without any entry are no kind, so that no rule matches them: Envoy sends one if all headers that would
// be its entries are absent and may be skipped.
func (r *Request) Kind() RequestKinds {
	switch {
	case r.Kubernetes != nil:
		return KubernetesWrites
	case r.NoHTTP && !slices.ContainsFunc(r.Descriptors, func(d Descriptor) bool { return len(d) > 0 }):
		return 0
	case r.NoHTTP:
		return OnlyDescriptors
	case len(r.Descriptors) > 0:
		return HTTPWithDescriptors
	default:
		return PlainHTTP
	}
}

// NamesRoute reports whether the request has an entry with the name of a route.
func (r *Request) NamesRoute() bool {
	return slices.ContainsFunc(r.Descriptors, func(d Descriptor) bool {
		return slices.ContainsFunc(d, func(e Entry) bool { return e.Key == RouteEntry })
	})
}
