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
