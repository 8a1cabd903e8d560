package objects

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Kuadrant converts RateLimitPolicies of Kuadrant. Each policy matches the requests whose descriptor entry "target" names the target.
func Kuadrant(files []policyfile.File) *importer.Result {
	out := &importer.Result{}
	for _, o := range importer.Objects(files, out, "kuadrant.io", "RateLimitPolicy") {
		k := kuadrantPolicy{Object: o, out: out}
		spec, _ := o.Field("spec")
		fields := spec.Value.Fields("spec")
		for _, f := range fields {
			if f.Key == "targetRef" {
				t := trafficPolicy{Object: o, out: out}
				t.target(f.Value)
				k.target = t.targets[0]
			}
		}
		k.limits(fields)
	}
	reportTooMany(out)
	return out
}

type kuadrantPolicy struct {
	*importer.Object

	out    *importer.Result
	target target
}

func (k *kuadrantPolicy) limits(fields []importer.Field) {
	for _, f := range fields {
		switch f.Key {
		case "targetRef":
		case "limits":
			switch {
			case k.target.name == "":
				unsupported(k.out, f, "the RateLimitPolicy has no targetRef; name the route that the limits are for")
				continue
			case !k.target.isRoute():
				unsupported(k.out, f, fmt.Sprintf("limits of %s are defaults for its routes in all namespaces; write them in the policies of the routes", k.target.name))
				continue
			}
			for _, limit := range f.Value.Fields("limits") {
				k.limit(limit)
			}
		case "defaults", "overrides", "when":
			unsupported(k.out, f, "it depends on the policies of other objects; write the limits that result in limits of this policy")
		default:
			unsupported(k.out, f, "unknown field of spec")
		}
	}
}

func (k *kuadrantPolicy) limit(limit importer.Field) {
	conditions := []string{targeted([]string{k.target.name})}
	var counters []string
	var rates []importer.Node
	previously := k.out.Count(importer.NotImported)
	for _, f := range limit.Value.Fields("a limit") {
		switch f.Key {
		case "rates":
			rates = f.Value.Items("rates")
		case "when":
			for _, n := range f.Value.Items("predicates") {
				conditions = append(conditions, "("+k.expression(n, "predicate")+")")
			}
		case "counters":
			for _, n := range f.Value.Items("counters") {
				counters = append(counters, "string("+k.expression(n, "expression")+")")
			}
		default:
			unsupported(k.out, f, "unknown field of a limit")
		}
	}
	if k.out.Count(importer.NotImported) > previously {
		return
	}
	for i, n := range rates {
		previously := k.out.Count(importer.NotImported)
		spec := v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisCustom, Algorithm: v1alpha1.FixedWindow, Identifier: oneForAll()}
		spec.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Expression: new(v1alpha1.Expression(strings.Join(conditions, " && ")))}}
		if len(counters) > 0 {
			spec.Identifier = expressionOf(joined(counters))
		}
		k.rate(n, &spec)
		if k.out.Count(importer.NotImported) > previously {
			continue
		}
		path := []string{k.Name, limit.Key}
		if len(rates) > 1 {
			path = append(path, strconv.Itoa(i))
		}
		n.Report(importer.Difference, "windows begin at multiples of their length, and not with the first request")
		k.out.Policies = append(k.out.Policies, importer.Policy{
			Place: n.Place(), Domain: k.Namespace, Path: path, Spec: spec, Targets: []string{k.target.name},
			Comment: fmt.Sprintf("limit %s of %s for %s", limit.Key, k.Name, k.target.name),
		})
	}
}

// rate reads the limit and the window of a rate.
func (k *kuadrantPolicy) rate(n importer.Node, spec *v1alpha1.RateLimitPolicySpec) {
	hasLimit := false
	for _, f := range n.Fields("a rate") {
		switch f.Key {
		case "limit":
			spec.Limit, hasLimit = f.Value.Int(f.Key), true
		case "window":
			spec.Window = v1alpha1.Duration(f.Value.Text(f.Key))
		default:
			unsupported(k.out, f, "unknown field of a rate")
		}
	}
	if !hasLimit {
		n.Report(importer.Invalid, "limit is missing")
	}
}

// expression converts a CEL expression of Kuadrant. It reports attributes that a request to Weir does not have.
func (k *kuadrantPolicy) expression(n importer.Node, field string) string {
	text := ""
	for _, f := range n.Fields("a condition") {
		if f.Key != field {
			unsupported(k.out, f, "unknown field")
			continue
		}
		text = f.Value.Text(f.Key)
	}
	attribute := regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*`)
	attributes := map[string]string{
		"request.method": "request.method", "request.host": "request.host", "request.url_path": "request.path", "request.headers": "request.headers",
		"source.address": "request.clientIP", "source.remote_address": "request.clientIP",
	}
	return attribute.ReplaceAllStringFunc(text, func(word string) string {
		root, rest, dotted := strings.Cut(word, ".")
		if word[0] == '"' || word[0] == '\'' || !dotted && root != "request" && root != "auth" && root != "source" {
			return word
		}
		for original, replacement := range attributes {
			if suffix, ok := strings.CutPrefix(word, original); ok && (suffix == "" || suffix[0] == '.') {
				return replacement + suffix
			}
		}
		n.Report(importer.NotImported, "%s: %s.%s is not an attribute of requests to Weir; write the policy by hand, with the header or claim that has "+
			"the value", field, root, rest)
		return word
	})
}
