package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
)

// GatewayGroup is the API group of the objects that policies can target.
const GatewayGroup = policyapi.GatewayGroup

// ControllerName is the controller of the entries in status.ancestors.
const ControllerName = "weir.dev/operator"

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
