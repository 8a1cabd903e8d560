package routetable

import (
	"cmp"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// envoyGateway is the controller of Envoy Gateway.
const envoyGateway = "gateway.envoyproxy.io/gatewayclass-controller"

// precedenceOf compares two matches as the Gateway API requires: an exact path, then the longest prefix, a method, the number of headers, and the
// number of parameters of the query. Equal matches keep their order, by the age of their routes. The Gateway API leaves open where regular expressions
// come: Istio and most others try them last.
func precedenceOf(a, b *rules.RouteMatch) int {
	return cmp.Or(
		cmp.Compare(rankOf(a, 2), rankOf(b, 2)),
		-cmp.Compare(trimmedLengthOf(a), trimmedLengthOf(b)),
		-cmp.Compare(methodsOf(a), methodsOf(b)),
		-cmp.Compare(headersOf(a), headersOf(b)),
		-cmp.Compare(len(a.Query), len(b.Query)),
	)
}

// precedenceInEnvoyGateway compares two matches as Envoy Gateway does, which differs from the Gateway API: a method counts as a header, and of equal
// numbers, the one with more exact values takes precedence. Regular expressions of paths come before prefixes.
func precedenceInEnvoyGateway(a, b *rules.RouteMatch) int {
	count := func(m *rules.RouteMatch) (headers, exact int) {
		headers, exact = headersOf(m), exactOf(m.Headers)
		if m.Method != "" {
			return headers + 1, exact + 1
		}
		return headers, exact
	}
	aHeaders, aExact := count(a)
	bHeaders, bExact := count(b)
	return cmp.Or(
		cmp.Compare(rankOf(a, 1), rankOf(b, 1)),
		-cmp.Compare(len(a.Path.Value), len(b.Path.Value)), // with the trailing slash of a prefix
		-cmp.Compare(aHeaders, bHeaders),
		-cmp.Compare(aExact, bExact),
		-cmp.Compare(len(a.Query), len(b.Query)),
		-cmp.Compare(exactOf(a.Query), exactOf(b.Query)),
	)
}

// rankOf returns the rank of the type of a path. Exact paths have rank 0.
func rankOf(m *rules.RouteMatch, regex int) int {
	switch m.Path.Type {
	case rules.PathExact:
		return 0
	case rules.PathRegex:
		return regex
	default:
		return 3 - regex
	}
}

// trimmedLengthOf ignores the trailing slash of a prefix, as the Gateway API does: a newer route must not take requests of an older one by it.
func trimmedLengthOf(m *rules.RouteMatch) int {
	if m.Path.Type == rules.PathPrefix {
		return len(strings.TrimSuffix(m.Path.Value, "/"))
	}
	return len(m.Path.Value)
}

func methodsOf(m *rules.RouteMatch) int {
	if m.Method == "" {
		return 0
	}
	return 1
}

// headersOf counts the suffix of the path, which is the method of any gRPC service, as a header.
func headersOf(m *rules.RouteMatch) int {
	if m.Suffix != "" {
		return len(m.Headers) + 1
	}
	return len(m.Headers)
}

func exactOf(conditions []rules.HeaderMatch) (n int) {
	for i := range conditions {
		if conditions[i].Type == rules.HeaderExact {
			n++
		}
	}
	return n
}
