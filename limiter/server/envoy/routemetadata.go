package envoy

import (
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/limiter/rules"
)

// gatewayMetadata is the namespace of the metadata in which Envoy Gateway names the route of a request, if includeRouteMetadata is set in
// its SecurityPolicy: {resources: [{kind, namespace, name, sectionName}]}.
const gatewayMetadata = "envoy-gateway"

// route is the route of the Gateway API that the gateway has chosen for a request. The zero route is unknown.
type route struct {
	kind, namespace, name string
	section               string // the name of the route's rule, or ""
}

// routeOf returns the route that the configuration of the gateway names. A client cannot set it.
func routeOf(a *authv3.AttributeContext) route {
	for _, resource := range a.GetRouteMetadataContext().GetFilterMetadata()[gatewayMetadata].GetFields()["resources"].GetListValue().GetValues() {
		field := func(name string) string { return text(resource.GetStructValue(), name) }
		r := route{kind: field("kind"), namespace: field("namespace"), name: field("name"), section: field("sectionName")}
		if r.kind != "" && r.namespace != "" && r.name != "" {
			return r
		}
	}
	return route{}
}

func text(s *structpb.Struct, field string) string { return s.GetFields()[field].GetStringValue() }

// routes returns the route that the gateway names, else the routes from the table of the rule set. Two routes mean that the
// request is ambiguous. With the context extension "target", the gateway names the route in this way, and the result is empty.
func (d *authEndpoint) routes(a *authv3.AttributeContext, headers map[string]string) []route {
	if named := routeOf(a); named != (route{}) {
		return []route{named}
	}
	if _, given := a.GetContextExtensions()[rules.RouteEntry]; given {
		return nil
	}
	h := a.GetRequest().GetHttp()
	found := d.engine.Index().RoutesOf(&rules.Request{Method: h.GetMethod(), Host: rules.GatewayHost(h.GetHost()), Headers: headers}, h.GetPath())
	routes := make([]route, 0, len(found))
	for _, f := range found {
		r := route{namespace: f.Namespace}
		r.kind, r.name, _ = strings.Cut(f.Target, "/")
		r.name, r.section, _ = strings.Cut(r.name, "/")
		routes = append(routes, r)
	}
	return routes
}

// descriptorsOf returns a descriptor with the context extensions, and descriptors that name the routes and their sections, so that policies can
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
