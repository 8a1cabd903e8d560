package objects

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/rate"
	"github.com/weir-dev/weir/internal/compile/window"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Kuadrant converts RateLimitPolicies of Kuadrant. Each policy matches the requests whose descriptor entry "target" names the target.
func Kuadrant(files []policyfile.File) *importer.Result { return KuadrantWith(files, nil) }

// KuadrantWith is [Kuadrant] with expressions for attributes of Kuadrant that a request to Weir does not have, see [ParseAttribute].
func KuadrantWith(files []policyfile.File, attributes map[string]string) *importer.Result {
	out := &importer.Result{}
	used := map[string]bool{}
	var policies []kuadrantPolicy
	format := importer.Format{Group: "kuadrant.io", Kinds: []string{"RateLimitPolicy"}, Other: func(o *importer.Object) importer.Use { return limitador(out, o) }}
	for _, o := range format.Objects(files, out) {
		k := kuadrantPolicy{Object: o, out: out, mapped: attributes, used: used}
		spec, _ := o.Field("spec")
		fields := spec.Value.Fields("spec")
		for _, f := range fields {
			if f.Key == "targetRef" {
				t := trafficPolicy{Object: o, out: out}
				t.target(f.Value)
				k.target = t.targets[0]
			}
		}
		k.policy(fields)
		policies = append(policies, k)
	}
	reportSections(policies)
	reportTooMany(out)
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if !used[name] && len(files) > 0 {
			out.Add(importer.Place{File: files[0].Name, Line: 1}, importer.Note, "no condition or counter has the attribute %s of --map", name)
		}
	}
	return out
}

// reportSections reports the policies of routes next to those of their sections: in Kuadrant, one of the two applies.
func reportSections(policies []kuadrantPolicy) {
	for _, k := range policies {
		for _, other := range policies {
			if section, ok := strings.CutPrefix(other.target.name, k.target.name+"/"); ok && k.target.isRoute() && k.Namespace == other.Namespace {
				k.Report(importer.Difference, "in Kuadrant, the policy %s replaces this one, or is replaced by it, for the requests of the section %s; "+
					"here both apply to them", other.Name, section)
			}
		}
	}
}

// limitador reports the limits of Limitador, which Kuadrant makes from policies.
func limitador(out *importer.Result, o *importer.Object) importer.Use {
	if o.Kind != "" || !o.Has("namespace", "max_value") {
		return importer.Skipped
	}
	out.Add(o.Place(), importer.NotImported, "a limit of Limitador is not read; import the RateLimitPolicy of Kuadrant that it comes from, or write a policy")
	return importer.Imported
}

type kuadrantPolicy struct {
	*importer.Object

	out        *importer.Result
	target     target
	conditions []string          // of all limits, without the target
	mapped     map[string]string // expressions of Weir, by attributes of Kuadrant
	used       map[string]bool   // attributes in mapped that an expression has
}

// attributeName is an attribute of Kuadrant: auth.identity.userid.
var attributeName = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$`)

// claimName is the name of a claim, or of one in another one: realm.tenant.
var claimName = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)

// ParseAttribute parses "auth.identity.userid=header:x-user-id": an attribute of Kuadrant, and where requests to Weir have its value. The value is in a
// header, a query parameter or a claim, or "claims" for an attribute whose fields are claims. It returns the attribute and an expression of Weir.
func ParseAttribute(text string) (attribute, expression string, err error) {
	attribute, source, _ := strings.Cut(text, "=")
	if !attributeName.MatchString(attribute) {
		return "", "", fmt.Errorf("%q must begin with an attribute such as auth.identity.userid, and an equals sign", text)
	}
	kind, name, _ := strings.Cut(source, ":")
	switch {
	case source == "claims":
		return attribute, "request.claims", nil
	case name == "":
	case kind == "header":
		return attribute, fmt.Sprintf("request.headers[?%q].orValue(\"\")", strings.ToLower(name)), nil
	case kind == "query":
		return attribute, fmt.Sprintf("request.query[?%q].orValue([\"\"])[0]", name), nil
	case kind == "claim" && claimName.MatchString(name):
		return attribute, "request.claims." + name, nil
	}
	return "", "", fmt.Errorf("%q must end with header:NAME, query:NAME, claim:NAME or claims", text)
}

// policy converts the limits of a policy. For a route, defaults and overrides are limits: no policy in the files is between the route and its requests,
// except one for a section of the route.
func (k *kuadrantPolicy) policy(fields []importer.Field) {
	var limits []importer.Field
	for _, f := range fields {
		switch f.Key {
		case "targetRef":
		case "limits", "when":
			limits = append(limits, f)
		case "defaults", "overrides":
			for _, inner := range f.Value.Fields(f.Key) {
				switch inner.Key {
				case "limits", "when":
					limits = append(limits, inner)
				case "strategy": // for the policies of other objects
				default:
					unknown(k.out, inner, f.Key, "strategy", "when", "limits")
				}
			}
		default:
			unknown(k.out, f, "spec", "targetRef", "limits", "when", "defaults", "overrides")
		}
	}
	previously := k.out.Count(importer.NotImported)
	for _, f := range limits {
		if f.Key == "when" && k.target.isRoute() {
			k.conditions = append(k.conditions, k.predicates(f)...)
		}
	}
	if k.out.Count(importer.NotImported) > previously { // a limit without its condition would apply to more requests
		return
	}
	hasLimits := false
	for _, f := range limits {
		if f.Key == "limits" {
			hasLimits = true
			k.convert(f)
		}
	}
	if !hasLimits {
		k.Report(importer.Invalid, "limits is missing; Kuadrant requires at least one limit")
	}
}

// convert converts the field limits.
func (k *kuadrantPolicy) convert(limits importer.Field) {
	switch {
	case k.target.name == "":
		unsupported(k.out, limits, "the RateLimitPolicy has no targetRef; name the route that the limits are for")
		return
	case !k.target.isRoute():
		unsupported(k.out, limits, fmt.Sprintf("limits of %s are defaults for its routes in all namespaces; write them in the policies of the routes", k.target.name))
		return
	}
	all := limits.Value.Fields("limits")
	if len(all) == 0 {
		k.out.Add(limits.Place, importer.Invalid, "limits is empty; Kuadrant requires at least one limit")
	}
	for _, limit := range all {
		k.limit(limit)
	}
}

// predicates returns the conditions in a field when.
func (k *kuadrantPolicy) predicates(when importer.Field) (conditions []string) {
	for _, n := range when.Value.Items("predicates") {
		conditions = append(conditions, "("+k.expression(n, "predicate")+")")
	}
	return conditions
}

func (k *kuadrantPolicy) limit(limit importer.Field) {
	conditions := slices.Concat([]string{targeted([]string{k.target.name})}, k.conditions)
	var counters []string
	var rates []importer.Node
	previously := k.out.Count(importer.NotImported)
	for _, f := range limit.Value.Fields("a limit") {
		switch f.Key {
		case "rates":
			rates = f.Value.Items("rates")
		case "when":
			conditions = append(conditions, k.predicates(f)...)
		case "counters":
			for _, n := range f.Value.Items("counters") {
				counters = append(counters, "string("+k.expression(n, "expression")+")")
			}
		default:
			unknown(k.out, f, "a limit", "rates", "when", "counters")
		}
	}
	isImported := k.out.Count(importer.NotImported) == previously
	if len(rates) == 0 {
		k.out.Add(limit.Place, importer.Note, "limit %s has no rates, so it does not need a policy", limit.Key)
	}
	var specs []v1alpha1.RateLimitPolicySpec
	var places []importer.Node
	for _, n := range rates {
		previously := k.out.Count(importer.NotImported)
		spec := v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisCustom, Algorithm: v1alpha1.FixedWindow, Identifier: oneForAll()}
		spec.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Expression: new(v1alpha1.Expression(strings.Join(conditions, " && ")))}}
		if len(counters) > 0 {
			spec.Identifier = expressionOf(joined(counters))
		}
		k.rate(n, &spec)
		if !isImported || k.out.Count(importer.NotImported) > previously {
			continue
		}
		n.Report(importer.Difference, "windows begin at multiples of their length, and not with the first request")
		specs, places = append(specs, spec), append(places, n)
	}
	path := []string{k.Name, limit.Key}
	one, isOne := combined(specs)
	if isOne {
		specs = []v1alpha1.RateLimitPolicySpec{one}
	}
	for i, n := range places[:len(specs)] {
		own := path
		if len(specs) > 1 {
			own = append(slices.Clone(path), strconv.Itoa(i))
		}
		k.out.Policies = append(k.out.Policies, importer.Policy{
			Place: n.Place(), Domain: k.Namespace, Path: own, Spec: specs[i], Targets: []string{k.target.name},
			Comment: fmt.Sprintf("limit %s of %s for %s", limit.Key, k.Name, k.target.name),
		})
	}
}

// rate reads the limit and the window of a rate.
func (k *kuadrantPolicy) rate(n importer.Node, spec *v1alpha1.RateLimitPolicySpec) {
	duration, unit := int64(0), ""
	for _, f := range n.Fields("a rate") {
		switch f.Key {
		case "limit":
			spec.Limit = new(f.Value.Int(f.Key))
		case "duration": // with unit, of v1beta2
			duration = f.Value.Int(f.Key)
		case "unit":
			unit = f.Value.Text(f.Key)
		case "window":
			spec.Window = v1alpha1.Duration(f.Value.Text(f.Key))
		default:
			unknown(k.out, f, "a rate", "limit", "window")
		}
	}
	if spec.Window == "" && duration > 0 && windowOf(unit) != "" {
		spec.Window = v1alpha1.Duration(strconv.FormatInt(duration, 10) + string(unit[0]))
	}
	if spec.Limit == nil {
		n.Report(importer.Invalid, "limit is missing")
	}
	if spec.Window == "" {
		n.Report(importer.Invalid, "window is missing; set it to a duration such as 10s")
	}
}

// combined returns the spec of one policy with the rates of all specs, which must not differ in anything else. It reports false for a single spec, and
// if a policy cannot have these rates: too many, a limit of 0, or two limits in one window.
func combined(specs []v1alpha1.RateLimitPolicySpec) (one v1alpha1.RateLimitPolicySpec, ok bool) {
	if len(specs) < 2 || len(specs) > rate.Max {
		return v1alpha1.RateLimitPolicySpec{}, false
	}
	one = specs[0]
	one.Limit, one.Window, one.Algorithm, one.Burst = nil, "", "", nil
	lengths := map[time.Duration]bool{}
	for i := range specs {
		spec := &specs[i]
		length, err := window.Parse(spec.Window)
		if err != nil || lengths[length] || spec.Limit == nil || *spec.Limit == 0 {
			return v1alpha1.RateLimitPolicySpec{}, false
		}
		lengths[length] = true
		one.Rates = append(one.Rates, v1alpha1.Rate{Limit: *spec.Limit, Window: spec.Window, Algorithm: spec.Algorithm, Burst: spec.Burst})
	}
	return one, true
}

// pathWithQuery finds an expression with request.path and a text with a query string.
var pathWithQuery = regexp.MustCompile(`(?s)\brequest\.path\b.*["'][^"']*\?|["'][^"']*\?.*\brequest\.path\b`)

// expression converts a CEL expression of Kuadrant. It reports attributes that a request to Weir does not have.
func (k *kuadrantPolicy) expression(n importer.Node, field string) string {
	text := ""
	for _, f := range n.Fields("a condition") {
		if f.Key != field {
			unknown(k.out, f, "a "+field, field)
			continue
		}
		text = f.Value.Text(f.Key)
	}
	if _, mapped := k.mapped["request.path"]; !mapped && pathWithQuery.MatchString(text) {
		n.Report(importer.NotImported, "%s: it compares request.path with a query string, which the path of a policy does not have; compare request.url_path, "+
			"and the parameters with request.query of the policy", field)
		return text
	}
	attribute := regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\(?`)
	return attribute.ReplaceAllStringFunc(text, func(word string) string {
		name, isCall := strings.CutSuffix(word, "(")
		if !isCall {
			return k.attribute(n, field, word)
		}
		receiver := strings.LastIndexByte(name, '.')
		if receiver < 0 { // a function
			return word
		}
		return k.attribute(n, field, name[:receiver]) + word[receiver:] // a method, such as split
	})
}

// kuadrantAttribute is an attribute of Kuadrant that a request to Weir has.
type kuadrantAttribute struct{ name, expression, difference string }

func kuadrantAttributes() []kuadrantAttribute {
	return []kuadrantAttribute{
		{name: "request.method", expression: "request.method"},
		{name: "request.host", expression: "request.host"},
		{name: "request.url_path", expression: "request.path"},
		{"request.path", "request.path", "request.path of Kuadrant has the query string, and the path of the policy does not: \"/a?b\" is \"/a\""},
		{name: "request.headers", expression: "request.headers"},
		{name: "request.id", expression: `request.headers["x-request-id"]`},
		{name: "request.useragent", expression: `request.headers["user-agent"]`},
		{name: "request.referer", expression: `request.headers["referer"]`},
		{name: "source.remote_address", expression: "request.clientIP"},
		{"source.address", "request.clientIP", "source.address of Kuadrant is the address and the port of a connection, and the policy has the address only: " +
			"all connections of a client share a counter"},
	}
}

// attribute converts a word of an expression, which can be an attribute of Kuadrant. Of the attributes in mapped, the longest one applies.
func (k *kuadrantPolicy) attribute(n importer.Node, field, word string) string {
	root, rest, dotted := strings.Cut(word, ".")
	if word[0] == '"' || word[0] == '\'' || !dotted && root != "request" && root != "auth" && root != "source" {
		return word
	}
	longest := slices.SortedFunc(maps.Keys(k.mapped), func(a, b string) int { return len(b) - len(a) })
	for _, original := range longest {
		if suffix, ok := strings.CutPrefix(word, original); ok && (suffix == "" || suffix[0] == '.') {
			k.used[original] = true
			return k.mapped[original] + suffix
		}
	}
	for _, known := range kuadrantAttributes() {
		if suffix, ok := strings.CutPrefix(word, known.name); ok && (suffix == "" || suffix[0] == '.') {
			if known.difference != "" {
				n.Report(importer.Difference, "%s: %s", field, known.difference)
			}
			return known.expression + suffix
		}
	}
	n.Report(importer.NotImported, "%s: %s.%s is not an attribute of requests to Weir; if a header or claim has its value, use for example "+
		"--map %s=header:x-user-id", field, root, rest, word)
	return word
}
