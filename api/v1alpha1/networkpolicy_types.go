package v1alpha1

import networkingv1 "k8s.io/api/networking/v1"

// LimiterNetworkPolicy configures the NetworkPolicy of the pods. The operator creates one if it runs with --network-policies.
type LimiterNetworkPolicy struct {
	// from lists the peers that can connect to the pods, for each port.
	// +optional
	From NetworkSources `json:"from,omitzero"`
}

// NetworkSources lists the peers that can connect to the pods, for each port.
type NetworkSources struct {
	// http lists the peers that can connect to port 8080, as in a NetworkPolicy. A podSelector without a namespaceSelector selects pods in
	// the namespace of the Limiter. If omitted, all peers can connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	HTTP []networkingv1.NetworkPolicyPeer `json:"http,omitempty"`
	// grpc lists the peers that can connect to port 8081, in the same form. If omitted, all peers can connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	GRPC []networkingv1.NetworkPolicyPeer `json:"grpc,omitempty"`
	// metrics lists the peers that can connect to port 9090, in the same form. The probes of the kubelet do not need an entry. If omitted, all
	// peers can connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Metrics []networkingv1.NetworkPolicyPeer `json:"metrics,omitempty"`
	// throttle lists the peers that can connect to port 9443, the admission webhook, in the same form. API servers are usually outside the
	// pod network: list their networks as ipBlock. If omitted, all peers can connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Throttle []networkingv1.NetworkPolicyPeer `json:"throttle,omitempty"`
}
