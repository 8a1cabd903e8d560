package policyapi

// GatewayGroup is the API group of the Gateway API.
const GatewayGroup = "gateway.networking.k8s.io"

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
