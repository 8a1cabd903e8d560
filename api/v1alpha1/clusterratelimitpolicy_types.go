package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterRateLimitPolicy limits the requests of all domains, or of some: at most spec.limit units per spec.window for every
// identifier on spec.axis, in all of its domains together.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters: it stands in the rate-limit headers of every answer, in counter keys and in metrics"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterratelimitpolicies,singular=clusterratelimitpolicy,scope=Cluster,categories=weir,shortName=crlp
// +kubebuilder:selectablefield:JSONPath=`.spec.axis`
// +kubebuilder:selectablefield:JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Axis",type=string,JSONPath=`.spec.axis`
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.spec.limit`
// +kubebuilder:printcolumn:name="Window",type=string,JSONPath=`.spec.window`
// +kubebuilder:printcolumn:name="Algorithm",type=string,JSONPath=`.spec.algorithm`
// +kubebuilder:printcolumn:name="Precedence",type=string,JSONPath=`.spec.precedence`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Enforcement",type=string,priority=1,JSONPath=`.spec.enforcement`
type ClusterRateLimitPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is limited, and where.
	// +required
	Spec ClusterRateLimitPolicySpec `json:"spec"`
	// status is what of it is enforced.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status RateLimitPolicyStatus `json:"status,omitempty"`
}

// ClusterRateLimitPolicyList is a list of ClusterRateLimitPolicies.
// +kubebuilder:object:root=true
type ClusterRateLimitPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRateLimitPolicy `json:"items"`
}

// ClusterRateLimitPolicySpec is a limit, and the domains that it holds in.
type ClusterRateLimitPolicySpec struct {
	RateLimitPolicySpec `json:",inline"`

	// domains whose requests are limited, counted together. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Domains []Domain `json:"domains,omitempty"`
	// precedence is when a request is held to the limit: Override always, Default where no RateLimitPolicy of its domain with the same
	// axis matches it. One in Shadow takes nothing's place.
	// +optional
	// +kubebuilder:default=Override
	Precedence Precedence `json:"precedence,omitempty"`
}

// Domain is what requests belong to: for most the name of a namespace.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^[^[:space:][:cntrl:]]+$')",message="a domain is the name of a namespace, or whatever the proxies call theirs: one or more characters without spaces"
type Domain string

// Precedence is when a request is held to the limit of a ClusterRateLimitPolicy.
// +kubebuilder:validation:Enum=Override;Default
type Precedence string

// When a ClusterRateLimitPolicy applies.
const (
	PrecedenceOverride Precedence = "Override"
	PrecedenceDefault  Precedence = "Default"
)
