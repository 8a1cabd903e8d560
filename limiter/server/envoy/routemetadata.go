package envoy

import (
	"context"
	"strings"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	routetable "github.com/weir-dev/weir/limiter/rules/route"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
)

// route is the route of the Gateway API that the gateway has chosen for a request. The zero route is unknown.
type route struct {
	kind, namespace, name string
	section               string // the name of the route's rule, or ""
}

// routeOf returns the route that the configuration of the gateway names. A client cannot set it.
func routeOf(a *wire.AuthRequest) route {
	resources, _ := a.Gateway["resources"].([]any)
	for i := range resources {
		fields, _ := resources[i].(map[string]any)
		field := func(name string) string {
			text, _ := fields[name].(string)
			return text
		}
		r := route{kind: field("kind"), namespace: field("namespace"), name: field("name"), section: field("sectionName")}
		if r.kind != "" && r.namespace != "" && r.name != "" {
			return r
		}
	}
	return route{}
}

// routes returns the route that the gateway names, else the routes from the table of the rule set to which the request can belong, and whether these
// are too many. With the context extension "target", the gateway names the route in this way, and the result is empty.
func (d *authEndpoint) routes(a *wire.AuthRequest, headers map[string]string) (routes []route, tooMany bool) {
	if named := routeOf(a); named != (route{}) {
		return []route{named}, false
	}
	if _, given := a.Extensions[rules.RouteEntry]; given {
		return nil, false
	}
	found := d.engine.Index().RoutesOf(&routetable.Request{
		Method: a.Method, Host: a.Host, Target: a.Path, Headers: headers, Lines: linesOf(a), Port: int32(a.Destination.Port),
	})
	routes = make([]route, 0, len(found))
	for _, f := range found {
		r := route{namespace: f.Namespace}
		r.kind, r.name, _ = strings.Cut(f.Target, "/")
		r.name, r.section, _ = strings.Cut(r.name, "/")
		routes = append(routes, r)
	}
	return routes, routetable.TooMany(found)
}

// linesOf returns the lines of headers if Envoy sends them as they are (encode_raw_headers), nil if it has joined them.
func linesOf(a *wire.AuthRequest) func(name string) []string {
	if len(a.Lines) == 0 || len(a.Headers) > 0 {
		return nil
	}
	return func(name string) (lines []string) {
		for _, line := range a.Lines {
			if strings.EqualFold(line.Name, name) {
				lines = append(lines, line.Value)
			}
		}
		return lines
	}
}

// decide decides the request of check, for all routes to which it can belong.
func (d *authEndpoint) decide(ctx context.Context, check *engine.Check, extensions map[string]string, routes []route) (engine.Answer, error) {
	if len(routes) < 2 {
		return d.engine.Check(ctx, check)
	}
	answers, err := d.engine.CheckAll(ctx, d.checks(check, extensions, routes))
	if err != nil {
		return engine.Answer{}, err
	}
	return mergeAnswers(answers, make([]intent, len(answers))), nil
}

// checks returns a check for each route to which the request of check can belong. They have different descriptors, and the namespaces of the
// routes as domains unless the context extension sets it.
func (d *authEndpoint) checks(check *engine.Check, extensions map[string]string, routes []route) []engine.Check {
	var all []engine.Check
	for i := range routes {
		one, of := *check, routes[i:i+1]
		one.Alternative = true
		one.Request.Domain = d.domain(extensions, of)
		one.Request.Descriptors = descriptorsOf(extensions, of, one.Request.Domain)
		if one.Request.Domain == routes[i].namespace {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return []engine.Check{*check}
	}
	return all
}

// descriptorsOf returns a descriptor with the context extensions, and descriptors that name the route and its section, so that policies can
// match each of them. The context extension "target" replaces the latter, and so does a domain that is not the namespace of the route:
// names of routes are unique only in their namespace.
func descriptorsOf(extensions map[string]string, routes []route, domain string) []rules.Descriptor {
	descriptors := extensionDescriptor(extensions)
	if _, given := extensions[rules.RouteEntry]; given {
		return descriptors
	}
	for _, r := range routes {
		if r.namespace != domain {
			continue
		}
		descriptors = append(descriptors, rules.Descriptor{{Key: rules.RouteEntry, Value: rules.RouteTarget(r.kind, r.name, "")}})
		if r.section != "" {
			descriptors = append(descriptors, rules.Descriptor{{Key: rules.RouteEntry, Value: rules.RouteTarget(r.kind, r.name, r.section)}})
		}
	}
	return descriptors
}
