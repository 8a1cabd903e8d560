package objects

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

// EnvoyGateway converts the global rate limits of BackendTrafficPolicies. Each policy matches the requests whose descriptor entry "target"
// names the target.
func EnvoyGateway(files []policyfile.File) *importer.Result {
	out := &importer.Result{}
	for _, o := range importer.Objects(files, out, "gateway.envoyproxy.io", "BackendTrafficPolicy") {
		spec, _ := o.Field("spec")
		p := trafficPolicy{Object: o, out: out}
		for _, f := range spec.Value.Fields("spec") {
			switch f.Key {
			case "targetRef":
				p.target(f.Value)
			case "targetRefs":
				for _, ref := range f.Value.Items("targets") {
					p.target(ref)
				}
			case "targetSelectors", "mergeType":
				unsupported(out, f, "it depends on other objects; list the targets in targetRefs, and the rules of all merged policies in one policy")
			case "rateLimit":
				p.limits = f.Value
			default:
				out.Add(f.Place, importer.Note, "%s is not a rate limit; keep it in the BackendTrafficPolicy", f.Key)
			}
		}
		p.convert()
	}
	reportTooMany(out)
	return out
}

// trafficPolicy is a BackendTrafficPolicy.
type trafficPolicy struct {
	*importer.Object

	out     *importer.Result
	targets []target
	limits  importer.Node // spec.rateLimit
}

// target is the value of the descriptor entry "target", such as HTTPRoute/shop.
type target struct {
	kind, name string
}

// isRoute reports whether the target is a route. Other targets, such as a Gateway, are parents of routes.
func (t target) isRoute() bool { return strings.HasSuffix(t.kind, "Route") }

func (p *trafficPolicy) target(n importer.Node) {
	var t target
	section := ""
	for _, f := range n.Fields("a target") {
		switch f.Key {
		case "group":
		case "kind":
			t.kind = f.Value.Text(f.Key)
		case "name":
			t.name = f.Value.Name(f.Key)
		case "sectionName":
			section = "/" + f.Value.Text(f.Key)
		case "namespace": // of earlier versions
			if namespace := f.Value.Text(f.Key); namespace != p.Namespace {
				unsupported(p.out, f, fmt.Sprintf("the target is in another namespace than the policy, %s; write the policy in the namespace of the target", p.Namespace))
			}
		default:
			n.Unknown(f, "a target", "group", "kind", "name", "sectionName")
		}
	}
	t.name = t.kind + "/" + t.name + section
	p.targets = append(p.targets, t)
}

func (p *trafficPolicy) convert() {
	if p.limits == (importer.Node{}) {
		p.Report(importer.Note, "%s/%s has no rateLimit", p.Namespace, p.Name)
		return
	}
	for _, f := range p.limits.Fields("rateLimit") {
		switch f.Key {
		case "type":
		case "local":
			unsupported(p.out, f, "each Envoy counts these limits alone; keep them in the BackendTrafficPolicy, or write them as global limits")
		case "global":
			for _, f := range f.Value.Fields("global") {
				if f.Key != "rules" {
					unknown(p.out, f, "global", "rules")
					continue
				}
				for i, rule := range f.Value.Items("rules") {
					p.rule(i, rule)
				}
			}
		default:
			unknown(p.out, f, "rateLimit", "type", "local", "global")
		}
	}
}

// rule converts one rule to a policy for each target, or to one policy for all of them if it is shared.
func (p *trafficPolicy) rule(i int, n importer.Node) {
	r := gatewayRule{out: p.out, spec: v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisCustom, Algorithm: v1alpha1.FixedWindow}}
	previously := p.out.Count(importer.NotImported)
	shared := false
	for _, f := range n.Fields("a rule") {
		switch f.Key {
		case "clientSelectors":
			for _, selector := range f.Value.Items("selectors") {
				r.selector(selector)
			}
		case "limit":
			r.limit(f.Value)
		case "cost":
			r.cost(f.Value)
		case "shared":
			shared = f.Value.Bool(f.Key)
		case "shadowMode":
			if f.Value.Bool(f.Key) {
				r.spec.Enforcement = v1alpha1.EnforcementShadow
			}
		case "xRateLimitHeaders":
			p.out.Add(f.Place, importer.Note, "xRateLimitHeaders has no effect: responseHeaders of the Limiter sets the headers")
		default:
			unknown(p.out, f, "a rule", "clientSelectors", "limit", "cost", "shared", "shadowMode", "xRateLimitHeaders")
		}
	}
	if p.out.Count(importer.NotImported) == previously {
		p.write(i, n, &r, shared)
	}
}

// write appends the policies of a rule.
func (p *trafficPolicy) write(i int, n importer.Node, r *gatewayRule, shared bool) {
	var names []string
	for _, t := range p.targets {
		if !t.isRoute() {
			n.Report(importer.NotImported, "%s: a rule for a %s applies to its routes in all namespaces, unless they have a policy of their own; list the "+
				"routes that the rule limits in targetRefs", t.name, t.kind)
			return
		}
		names = append(names, t.name)
	}
	if len(names) == 0 {
		n.Report(importer.NotImported, "the BackendTrafficPolicy has no targetRefs; list the routes that the rule limits")
		return
	}
	groups := [][]string{names}
	if !shared {
		groups = nil
		for _, name := range names {
			groups = append(groups, []string{name})
		}
	}
	for _, group := range groups {
		path := []string{p.Name, strconv.Itoa(i)}
		if len(groups) > 1 {
			path = append(path, group[0])
		}
		p.out.Policies = append(p.out.Policies, importer.Policy{
			Place: n.Place(), Domain: p.Namespace, Path: path, Spec: r.forTargets(group), Targets: group,
			Comment: fmt.Sprintf("rule %d of %s for %s", i, p.Name, strings.Join(group, ", ")),
		})
	}
}
