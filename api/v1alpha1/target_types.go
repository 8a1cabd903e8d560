package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GatewayGroup is the API group of the objects that policies can target.
const GatewayGroup = "gateway.networking.k8s.io"

// ControllerName is the controller of the entries in status.ancestors.
const ControllerName = "weir.dev/operator"

// TargetReference refers to an object of the Gateway API.
// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__) || self.kind == 'Gateway'",fieldPath=".namespace",message="namespace is valid only with kind Gateway, because a policy can target only routes of its own namespace; remove namespace"
type TargetReference struct {
	// group is the API group of the target.
	// +required
	Group TargetGroup `json:"group"`
	// kind is the kind of the target. HTTPRoute and GRPCRoute: the requests of the route. Gateway: the requests of the routes that the Gateway has
	// accepted, in all namespaces. A RateLimitPolicy in another namespace than the Gateway limits only the routes of its own namespace.
	// +required
	Kind TargetKind `json:"kind"`
	// namespace is the namespace of a Gateway. A RateLimitPolicy needs a ReferenceGrant for a Gateway in another namespace. If omitted, it is
	// the namespace of the policy. A ClusterRateLimitPolicy must set it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace *string `json:"namespace,omitempty"`
	// name is the name of the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// sectionName is the name of a rule of the route, or of a listener of the Gateway. If omitted, the policy applies to the whole target.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SectionName *string `json:"sectionName,omitempty"`
}

// TargetGroup is the API group of a target.
// +kubebuilder:validation:Enum=gateway.networking.k8s.io
type TargetGroup string

// TargetKind is the kind of a target.
// +kubebuilder:validation:Enum=HTTPRoute;GRPCRoute;Gateway
type TargetKind string

const (
	// TargetHTTPRoute is an HTTPRoute, or a rule of one.
	TargetHTTPRoute TargetKind = "HTTPRoute"
	// TargetGRPCRoute is a GRPCRoute, or a rule of one.
	TargetGRPCRoute TargetKind = "GRPCRoute"
	// TargetGateway is a Gateway, or a listener of one.
	TargetGateway TargetKind = "Gateway"
)

// MatchedBy is how requests are assigned to routes.
// +kubebuilder:validation:Enum=RouteName;Request
type MatchedBy string

const (
	// MatchedByRouteName matches the name of the route that the gateway sends with each request.
	MatchedByRouteName MatchedBy = "RouteName"
	// MatchedByRequest finds the route of a request that has no route, by its host, path, method, headers and query.
	MatchedByRequest MatchedBy = "Request"
)

// PolicyAncestorStatus is the state of the policy at one target. It has the form of the PolicyAncestorStatus of the Gateway API.
type PolicyAncestorStatus struct {
	// ancestorRef is the target in spec.targetRefs.
	// +required
	AncestorRef TargetReference `json:"ancestorRef"`
	// controllerName is the controller that wrote the entry: weir.dev/operator.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ControllerName string `json:"controllerName"`
	// conditions has Accepted: whether the policy applies to this target. Its reason is NoRoutes if gateways route no request to the target.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

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
