package objects

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/importer/traefikrule"
)

// inFile begins the references to middlewares of the file provider. Those of objects begin with a namespace and a slash.
const inFile = "@file/"

// traefikConfig is what the files have.
type traefikConfig struct {
	middlewares []traefikMiddleware
	routers     []*traefikRouter
	chains      map[string][]string // the middlewares of chains, by reference
}

// traefikMiddleware is a middleware.
type traefikMiddleware struct {
	reference, namespace, name string
	fields                     []importer.Field
}

// traefikRouter is a router with middlewares: a route of an IngressRoute, an Ingress, or a router of the file provider.
type traefikRouter struct {
	place       importer.Place // of the rule
	name        string
	match       *v1alpha1.HTTPMatch // nil if no policy expresses the rule
	differences []string
	invalid     error
	middlewares []string // references
}

func (c *traefikConfig) addRouter(place importer.Place, name, rule string, middlewares []string) {
	r := &traefikRouter{place: place, name: name, middlewares: middlewares}
	r.match, r.differences, r.invalid = traefikrule.Convert(rule)
	c.routers = append(c.routers, r)
}

// addObject adds an object other than a middleware, and reports whether it has routers.
func (c *traefikConfig) addObject(o *importer.Object) bool {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	switch {
	case o.Kind == "IngressRoute" && (group == "traefik.io" || group == "traefik.containo.us"):
		c.addIngressRoute(o)
	case o.Kind == "Ingress" && group == "networking.k8s.io":
		return c.addIngress(o)
	default:
		return false
	}
	return true
}

func (c *traefikConfig) addIngressRoute(o *importer.Object) {
	spec, _ := o.Field("spec")
	for _, f := range spec.Value.Fields("spec") {
		if f.Key != "routes" {
			continue
		}
		routes := f.Value.Items("routes")
		for i, n := range routes {
			name, rule, place, middlewares := o.Name, "", n.Place(), []string{}
			if len(routes) > 1 {
				name += "-" + strconv.Itoa(i+1)
			}
			for _, f := range n.Fields("a route") {
				switch f.Key {
				case "match":
					rule, place = f.Value.Text(f.Key), f.Place
				case "middlewares":
					for _, m := range f.Value.Items("middlewares") {
						middlewares = append(middlewares, referenceOf(m, o.Namespace))
					}
				}
			}
			c.addRouter(place, name, rule, middlewares)
		}
	}
}

// referenceOf returns the middleware that an object names.
func referenceOf(n importer.Node, namespace string) string {
	name := ""
	for _, f := range n.Fields("a middleware") {
		switch f.Key {
		case "name":
			name = f.Value.Text(f.Key)
		case "namespace":
			if text := f.Value.Text(f.Key); text != "" {
				namespace = text
			}
		}
	}
	if ofFile, isOfFile := strings.CutSuffix(name, "@file"); isOfFile {
		return inFile + ofFile
	}
	return namespace + "/" + name
}

// addIngress adds the routes of an Ingress, if its annotation names middlewares.
func (c *traefikConfig) addIngress(o *importer.Object) bool {
	names := metadataText(o, "annotations", "traefik.ingress.kubernetes.io/router.middlewares")
	if names == "" {
		return false
	}
	r := &traefikRouter{place: o.Place(), name: o.Name, match: matchOf(rulesOf(o))}
	for name := range strings.SplitSeq(names, ",") {
		r.middlewares = append(r.middlewares, strings.TrimSpace(name))
	}
	c.routers = append(c.routers, r)
	return true
}

// addFileRouters adds the routers of a configuration of the file provider.
func (c *traefikConfig) addFileRouters(routers importer.Field) {
	for _, router := range routers.Value.Fields("routers") {
		rule, place, middlewares := "", router.Place, []string{}
		for _, f := range router.Value.Fields("a router") {
			switch f.Key {
			case "rule":
				rule, place = f.Value.Text(f.Key), f.Place
			case "middlewares":
				middlewares = append(middlewares, fileReferences(f)...)
			}
		}
		c.addRouter(place, router.Key, rule, middlewares)
	}
}

// fileReferences returns the middlewares that a list in a configuration of the file provider names.
func fileReferences(list importer.Field) (references []string) {
	for _, m := range list.Value.Items(list.Key) {
		name := m.Text(list.Key)
		if !strings.Contains(name, "@") || strings.HasSuffix(name, "@file") {
			name = inFile + strings.TrimSuffix(name, "@file")
		}
		references = append(references, name)
	}
	return references
}

// addChain adds the middlewares of a chain.
func (c *traefikConfig) addChain(m *traefikMiddleware, chain importer.Field) {
	for _, f := range chain.Value.Fields("chain") {
		if f.Key != "middlewares" {
			continue
		}
		if strings.HasPrefix(m.reference, inFile) {
			c.chains[m.reference] = append(c.chains[m.reference], fileReferences(f)...)
			continue
		}
		for _, n := range f.Value.Items("middlewares") {
			c.chains[m.reference] = append(c.chains[m.reference], referenceOf(n, m.namespace))
		}
	}
}

// isUsedBy reports whether a router has a middleware, also in a chain.
func (c *traefikConfig) isUsedBy(m *traefikMiddleware, r *traefikRouter) bool {
	seen := map[string]bool{}
	var in func(references []string) bool
	in = func(references []string) bool {
		return slices.ContainsFunc(references, func(reference string) bool {
			if reference == m.reference || reference == m.namespace+"-"+m.name+"@kubernetescrd" {
				return true
			}
			if seen[reference] {
				return false
			}
			seen[reference] = true
			return in(c.chains[reference])
		})
	}
	return in(r.middlewares)
}

// policiesOf returns a policy for each router that has the middleware: each of them counts alone. Without a router, the policy is for all requests.
func (c *traefikConfig) policiesOf(out *importer.Result, m *traefikMiddleware, policy importer.Policy) (policies []importer.Policy) {
	isUsed := false
	for _, r := range c.routers {
		if !c.isUsedBy(m, r) {
			continue
		}
		isUsed = true
		if r.invalid != nil {
			out.Add(r.place, importer.NotImported, "router %s with middleware %s: %v", r.name, m.name, r.invalid)
			continue
		}
		for _, difference := range r.differences {
			out.Add(r.place, importer.Difference, "%s", difference)
		}
		if other := c.overlapping(r); other != nil {
			out.Add(r.place, importer.Difference, "Traefik sends a request to one router, by priority, and the policy also applies to requests of router "+
				"%s (%s:%d) that match this rule", other.name, other.place.File, other.place.Line)
		}
		one := policy
		one.Path = []string{m.name, r.name}
		one.Comment = fmt.Sprintf("router %s, %s", r.name, policy.Comment)
		if r.match != nil && !traefikrule.IsAll(r.match) {
			one.Spec.Match = &v1alpha1.Match{HTTP: r.match}
		}
		policies = append(policies, one)
	}
	if !isUsed {
		out.Add(policy.Place, importer.Difference, "the policy applies to all requests of its domain, because no router in the files has the middleware; "+
			"add its router to the files, or add match.http")
		return []importer.Policy{policy}
	}
	return policies
}

// overlapping returns another router that requests of a router can match, nil without one.
func (c *traefikConfig) overlapping(r *traefikRouter) *traefikRouter {
	for _, other := range c.routers {
		if other != r && (other.match == nil || r.match == nil || traefikrule.Overlap(r.match, other.match)) {
			return other
		}
	}
	return nil
}
