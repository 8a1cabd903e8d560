package v1alpha1

// RouteMatching selects the Gateways that do not name the route of a request.
type RouteMatching struct {
	// gateways are Gateways of the Gateway API that send requests to the pods over ext_authz and do not name the route of each request. For such a
	// request, the pods find the route as the Gateway API requires: by the hosts of listeners and routes, paths, methods, headers and query. The
	// namespace of the route is then the domain of the request. All callers that send neither a route nor a domain must be these Gateways: other
	// clients could choose a route by the host. The port in the pod of the gateway distinguishes listeners with the same host. If it is neither the
	// port of a listener nor one that Envoy Gateway derives from it, a request counts for the routes of all of them. To leave out a listener that only
	// redirects to another one, set sectionName. If omitted, only gateways that name the route can use policies with targetRefs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Gateways []GatewayReference `json:"gateways,omitempty"`
}

// GatewayReference refers to a Gateway of the Gateway API, or to one of its listeners.
type GatewayReference struct {
	// namespace is the namespace of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// sectionName is the name of a listener. If omitted, all listeners of the Gateway are used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SectionName *string `json:"sectionName,omitempty"`
}
