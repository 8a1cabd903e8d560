package envoy

import (
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

// descriptorsOf returns a descriptor with the context extensions, and descriptors that name the route and its section, so that policies can
// match each of them. The context extension "target" replaces the latter, and so does a domain that is not the namespace of the route:
// names of routes are unique only in their namespace.
func descriptorsOf(extensions map[string]string, r route, domain string) []rules.Descriptor {
	descriptors := extensionDescriptor(extensions)
	if _, given := extensions[rules.RouteEntry]; given || r == (route{}) || r.namespace != domain {
		return descriptors
	}
	descriptors = append(descriptors, rules.Descriptor{{Key: rules.RouteEntry, Value: rules.RouteTarget(r.kind, r.name, "")}})
	if r.section != "" {
		descriptors = append(descriptors, rules.Descriptor{{Key: rules.RouteEntry, Value: rules.RouteTarget(r.kind, r.name, r.section)}})
	}
	return descriptors
}
