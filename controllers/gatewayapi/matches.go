package gatewayapi

import (
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
)

// httpMatches returns the matches of a rule of an HTTPRoute. Without matches, it selects every request.
func httpMatches(rule string, matches []gatewayv1.HTTPRouteMatch) (all []gateway.RouteMatch) {
	if len(matches) == 0 {
		matches = []gatewayv1.HTTPRouteMatch{{}}
	}
	for i := range matches {
		m := &matches[i]
		match := gateway.RouteMatch{Rule: rule}
		match.Path = rules.PathMatch{Type: rules.PathPrefix, Value: "/"}
		if m.Path != nil && m.Path.Value != nil {
			match.Path.Value = *m.Path.Value
		}
		if m.Path != nil && m.Path.Type != nil { // the same names
			match.Path.Type = rules.PathMatchType(*m.Path.Type)
		}
		match.Method = textOf(m.Method)
		for _, h := range m.Headers {
			match.Headers = appendFirst(match.Headers, strings.ToLower(string(h.Name)), textOf(h.Type), h.Value)
		}
		for _, q := range m.QueryParams {
			match.Query = appendFirst(match.Query, string(q.Name), textOf(q.Type), q.Value)
		}
		all = append(all, match)
	}
	return all
}

// grpcMatches returns the matches of a rule of a GRPCRoute. The path of a gRPC call is /service/method.
func grpcMatches(rule string, matches []gatewayv1.GRPCRouteMatch) (all []gateway.RouteMatch) {
	if len(matches) == 0 {
		matches = []gatewayv1.GRPCRouteMatch{{}}
	}
	for i := range matches {
		m := &matches[i]
		match := gateway.RouteMatch{Rule: rule}
		match.Path, match.Suffix = grpcPath(m.Method)
		for _, h := range m.Headers {
			match.Headers = appendFirst(match.Headers, strings.ToLower(string(h.Name)), textOf(h.Type), h.Value)
		}
		all = append(all, match)
	}
	return all
}

// anyName is a regular expression for a name of a service or method.
const anyName = "[A-Za-z_][A-Za-z_0-9.]*"

func grpcPath(m *gatewayv1.GRPCMethodMatch) (path rules.PathMatch, suffix string) {
	path = rules.PathMatch{Type: rules.PathPrefix, Value: "/"}
	if m == nil {
		return path, ""
	}
	service, method := textOf(m.Service), textOf(m.Method)
	if m.Type != nil && *m.Type == gatewayv1.GRPCMethodMatchRegularExpression {
		if service == "" {
			service = anyName
		}
		if method == "" {
			method = anyName
		}
		return rules.PathMatch{Type: rules.PathRegex, Value: "/" + service + "/" + method}, ""
	}
	switch {
	case service != "" && method != "":
		return rules.PathMatch{Type: rules.PathExact, Value: "/" + service + "/" + method}, ""
	case service != "":
		return rules.PathMatch{Type: rules.PathPrefix, Value: "/" + service}, ""
	case method != "":
		return path, "/" + method
	default:
		return path, ""
	}
}

// appendFirst adds a header or a parameter. Of several with one name, the Gateway API uses the first.
func appendFirst(list []rules.HeaderMatch, name, kind, value string) []rules.HeaderMatch {
	if slices.ContainsFunc(list, func(h rules.HeaderMatch) bool { return h.Name == name }) {
		return list
	}
	if kind == "" {
		kind = string(rules.HeaderExact)
	}
	return append(list, rules.HeaderMatch{Type: rules.HeaderMatchType(kind), Name: name, Value: value}) // the same names
}
