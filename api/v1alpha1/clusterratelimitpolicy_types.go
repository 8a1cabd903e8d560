package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterRateLimitPolicy limits requests in all domains, or in the domains that spec.domains lists. Each identifier on spec.axis
// can spend spec.limit units per spec.window. All domains of the policy share one counter for an identifier.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters, because rate-limit headers, counter keys and metrics contain it"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.counterName) ? self.spec.counterName : self.metadata.name) == (has(oldSelf.spec.counterName) ? oldSelf.spec.counterName : oldSelf.metadata.name)",fieldPath=".spec.counterName",message="counterName must not change, because all counters of the policy would start again; to start them again, delete the policy and create it with another counterName"
// +kubebuilder:metadata:labels="gateway.networking.k8s.io/policy=Inherited"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterratelimitpolicies,singular=clusterratelimitpolicy,scope=Cluster,categories=weir,shortName=crlp
// +kubebuilder:selectablefield:JSONPath=`.spec.axis`
// +kubebuilder:selectablefield:JSONPath=`.spec.enforcement`
// +kubebuilder:selectablefield:JSONPath=`.spec.precedence`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Axis",type=string,JSONPath=`.spec.axis`
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.spec.limit`
// +kubebuilder:printcolumn:name="Window",type=string,JSONPath=`.spec.window`
// +kubebuilder:printcolumn:name="Algorithm",type=string,JSONPath=`.status.effective.rates[0].algorithm`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Rates",type=string,priority=1,JSONPath=`.status.effective.summary`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type ClusterRateLimitPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired limit and the domains that it applies to.
	// +required
	Spec ClusterRateLimitPolicySpec `json:"spec"`
	// status is the observed state of the policy. The operator writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status RateLimitPolicyStatus `json:"status,omitempty"`
}

// ClusterRateLimitPolicyList is a list of ClusterRateLimitPolicy.
//
// +kubebuilder:object:root=true
type ClusterRateLimitPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRateLimitPolicy `json:"items"`
}

// ClusterRateLimitPolicySpec is a limit and the domains that it applies to.
//
// +kubebuilder:validation:XValidation:rule="!has(self.targetRefs) || self.targetRefs.all(t, has(t.__namespace__))",fieldPath=".targetRefs",message="targetRefs of a ClusterRateLimitPolicy must have kind Gateway and a namespace; use a RateLimitPolicy for a route"
// +kubebuilder:validation:XValidation:rule="!has(self.targetRefs) || !has(self.domains)",fieldPath=".domains",message="domains must not be set together with targetRefs, because the routes of the Gateways determine the domains; remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.replaces) || !has(self.precedence) || self.precedence != 'Default'",fieldPath=".replaces",message="replaces must not be set with precedence: Default, because a default replaces no other one; remove one of them"
type ClusterRateLimitPolicySpec struct {
	RateLimitPolicySpec `json:",inline"`

	// domains lists the domains whose requests the policy limits. All of them share one counter for an identifier. If omitted, the
	// policy applies to all domains.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Domains []Domain `json:"domains,omitempty"`
	// precedence decides what happens when a RateLimitPolicy of the request's domain matches the same request. With Override, this
	// policy applies to every request that it matches, in addition to the other policy. With Default, this policy applies unless
	// another policy that has the name of this one in spec.replaces matches the request; one with enforcement Shadow does not count. Defaults
	// to Override.
	// +optional
	Precedence Precedence `json:"precedence,omitempty"`
}

// Domain is the domain of requests. For most requests it is the name of a namespace.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^[^[:space:][:cntrl:]]+$')",message="a domain must be one or more characters without spaces: the name of a namespace, or the domain that your proxy sends"
type Domain string

// Precedence decides whether a ClusterRateLimitPolicy applies to a request that a RateLimitPolicy matches as well.
// +kubebuilder:validation:Enum=Override;Default
type Precedence string

const (
	// PrecedenceOverride applies the policy to every request that it matches.
	PrecedenceOverride Precedence = "Override"
	// PrecedenceDefault applies the policy unless a policy that replaces it matches the request.
	PrecedenceDefault Precedence = "Default"
)
