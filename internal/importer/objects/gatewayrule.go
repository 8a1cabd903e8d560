package objects

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
)

// gatewayRule is a rule of a BackendTrafficPolicy.
type gatewayRule struct {
	out         *importer.Result
	spec        v1alpha1.RateLimitPolicySpec
	match       v1alpha1.HTTPMatch
	conditions  []string // CEL
	identifiers []string // CEL, of the values that separate counters
	selected    map[string]bool
}

// targeted returns a condition for the requests whose descriptor entry "target" names one of the targets, such as HTTPRoute/shop.
func targeted(names []string) string {
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, strconv.Quote(name))
	}
	return `request.descriptors.exists(d, d.exists(e, e.key == "target" && e.value in [` + strings.Join(quoted, ", ") + `]))`
}

func (r *gatewayRule) forTargets(names []string) v1alpha1.RateLimitPolicySpec {
	spec, match := r.spec, r.match
	if *spec.Limit == 0 {
		spec.Cost = nil
	}
	conditions := slices.Concat([]string{targeted(names)}, r.conditions)
	match.Expression = new(v1alpha1.Expression(strings.Join(conditions, " && ")))
	spec.Match = &v1alpha1.Match{HTTP: &match}
	spec.Identifier = oneForAll()
	if len(r.identifiers) > 0 {
		spec.Identifier = expressionOf(joined(r.identifiers))
	}
	return spec
}

// once reports a second condition of a kind. All selectors of a rule must match, but a policy has one list of each kind.
func (r *gatewayRule) once(f importer.Field) bool {
	if r.selected[f.Key] {
		unsupported(r.out, f, "only one selector of a rule can have it; combine the selectors")
		return false
	}
	if r.selected == nil {
		r.selected = map[string]bool{}
	}
	r.selected[f.Key] = true
	return true
}

func (r *gatewayRule) selector(n importer.Node) {
	fields := n.Fields("a selector")
	if len(fields) == 0 {
		n.Report(importer.Invalid, "the selector is empty; Envoy Gateway requires headers, methods, path, sourceCIDR or queryParams")
	}
	for _, f := range fields {
		switch f.Key {
		case "headers":
			for _, header := range f.Value.Items("headers") {
				r.header(header)
			}
		case "queryParams":
			for _, param := range f.Value.Items("query parameters") {
				r.query(param)
			}
		case "methods":
			if r.once(f) {
				r.methods(f)
			}
		case "path":
			if r.once(f) {
				r.path(f)
			}
		case "sourceCIDR":
			if r.once(f) {
				r.source(f)
			}
		default:
			unknown(r.out, f, "a selector", "headers", "methods", "path", "sourceCIDR", "queryParams")
		}
	}
}

// condition is a header, a query parameter, a method, a path or a network of a selector.
type condition struct {
	kind, name, value string
	hasValue, invert  bool
}

func (r *gatewayRule) condition(n importer.Node) (c condition) {
	for _, f := range n.Fields("a condition") {
		switch f.Key {
		case "type":
			c.kind = f.Value.Text(f.Key)
		case "name":
			c.name = f.Value.Text(f.Key)
		case "value":
			c.value, c.hasValue = f.Value.Text(f.Key), !f.Value.IsNull()
		case "invert":
			c.invert = f.Value.Bool(f.Key)
		default:
			unknown(r.out, f, "a condition", "type", "name", "value", "invert")
		}
	}
	return c
}

// rejects reports a header or a query parameter that Envoy Gateway rejects.
func (c *condition) rejects(n importer.Node) bool {
	switch isDistinct := c.kind == "Distinct"; {
	case isDistinct && (c.invert || c.hasValue):
		n.Report(importer.Invalid, "%s: a condition of type Distinct must have neither value nor invert, as Envoy Gateway requires", c.name)
	case !isDistinct && !c.hasValue:
		n.Report(importer.Invalid, "%s: value is missing; Envoy Gateway requires it unless the type is Distinct", c.name)
	default:
		return false
	}
	return true
}

func (r *gatewayRule) header(n importer.Node) {
	c := r.condition(n)
	if c.rejects(n) {
		return
	}
	h := v1alpha1.HeaderMatch{Name: v1alpha1.HeaderName(c.name), Type: v1alpha1.HeaderExact, Value: &c.value, Invert: c.invert}
	switch c.kind {
	case "", "Exact":
	case "RegularExpression":
		h.Type = v1alpha1.HeaderRegularExpression
	case "Distinct":
		h.Type, h.Value = v1alpha1.HeaderPresent, nil
		r.identifiers = append(r.identifiers, fmt.Sprintf("request.headers[%q]", strings.ToLower(c.name)))
	default:
		n.Report(importer.NotImported, "unknown type %s of a header", c.kind)
	}
	r.match.Headers = append(r.match.Headers, h)
}

func (r *gatewayRule) query(n importer.Node) {
	c := r.condition(n)
	if c.rejects(n) {
		return
	}
	first := fmt.Sprintf("request.query[%q][0]", c.name)
	switch {
	case c.invert, c.kind != "" && c.kind != "Exact" && c.kind != "Distinct":
		n.Report(importer.NotImported, "only the types Exact and Distinct of queryParams, without invert, are supported")
	case c.kind == "Distinct":
		r.conditions = append(r.conditions, fmt.Sprintf("%q in request.query", c.name))
		r.identifiers = append(r.identifiers, first)
	default:
		r.conditions = append(r.conditions, fmt.Sprintf("%q in request.query && %s == %q", c.name, first, c.value))
	}
}

func (r *gatewayRule) methods(f importer.Field) {
	supported := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}
	var plain, inverted []string
	for _, n := range f.Value.Items("methods") {
		switch c := r.condition(n); {
		case !slices.Contains(supported, c.value):
			n.Report(importer.Invalid, "unknown method %q; the methods are %s", c.value, strings.Join(supported, ", "))
		case c.invert:
			inverted = append(inverted, c.value)
		default:
			plain = append(plain, c.value)
		}
	}
	for _, method := range supported {
		// Methods are alternatives. Two inverted methods together select every method.
		if slices.Contains(plain, method) || len(inverted) > 0 && (len(inverted) > 1 || inverted[0] != method) {
			r.match.Methods = append(r.match.Methods, v1alpha1.Method(method))
		}
	}
}

func (r *gatewayRule) path(f importer.Field) {
	c := r.condition(f.Value)
	if c.invert {
		unsupported(r.out, f, "an inverted path cannot be expressed; list the paths to limit")
		return
	}
	r.match.Paths = []v1alpha1.PathMatch{{Type: v1alpha1.PathMatchType(c.kind), Value: c.value}}
}

func (r *gatewayRule) source(f importer.Field) {
	c := r.condition(f.Value)
	if c.invert {
		r.match.ExceptCIDRs = []v1alpha1.CIDR{v1alpha1.CIDR(c.value)}
	} else {
		r.match.CIDRs = []v1alpha1.CIDR{v1alpha1.CIDR(c.value)}
	}
	if c.kind == "Distinct" {
		r.identifiers = append(r.identifiers, "request.clientIP")
	}
}

func (r *gatewayRule) limit(n importer.Node) {
	for _, f := range n.Fields("limit") {
		switch f.Key {
		case "requests":
			r.spec.Limit = new(f.Value.Int(f.Key))
		case "unit":
			if r.spec.Window = windowOf(f.Value.Text(f.Key)); r.spec.Window == "" {
				f.Value.Report(importer.Invalid, "unknown unit; the units are Second, Minute, Hour, Day, Week, Month and Year")
			}
		default:
			unsupported(r.out, f, "a policy has a fixed limit; use tiers for limits that depend on the request")
		}
	}
	if !n.Has("unit") && !n.Has("fromMetadata") {
		n.Report(importer.Invalid, "unit is missing; the units are Second, Minute, Hour, Day, Week, Month and Year")
	}
	if r.spec.Limit == nil {
		n.Report(importer.Invalid, "requests is missing")
		r.spec.Limit = new(int64(0)) // the rest is validated too
	}
}

func (r *gatewayRule) cost(n importer.Node) {
	for _, f := range n.Fields("cost") {
		if f.Key == "response" {
			unsupported(r.out, f, "ext_authz runs before the response exists; keep this rule on Envoy's rate limit filter")
			continue
		}
		for _, part := range f.Value.Fields("cost") {
			switch {
			case part.Key == "from":
			case part.Key == "number" && part.Value.Int(part.Key) > 0:
				r.spec.Cost = &v1alpha1.Cost{Value: new(part.Value.Int(part.Key))}
			default:
				unsupported(r.out, part, "only a number of at least 1 is supported; use cost.header or cost.expression of the policy for costs that depend on the request")
			}
		}
	}
}
