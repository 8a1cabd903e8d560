package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RateLimitPolicy limits requests whose domain is the namespace of the policy. Each identifier on spec.axis can spend spec.limit units
// per spec.window.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters, because rate-limit headers, counter keys and metrics contain it"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.counterName) ? self.spec.counterName : self.metadata.name) == (has(oldSelf.spec.counterName) ? oldSelf.spec.counterName : oldSelf.metadata.name)",fieldPath=".spec.counterName",message="counterName must not change, because all counters of the policy would start again; to start them again, delete the policy and create it with another counterName"
// +kubebuilder:metadata:labels="gateway.networking.k8s.io/policy=Inherited"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ratelimitpolicies,singular=ratelimitpolicy,categories=weir,shortName=wrlp;rlp
// +kubebuilder:selectablefield:JSONPath=`.spec.axis`
// +kubebuilder:selectablefield:JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Axis",type=string,JSONPath=`.spec.axis`
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.spec.limit`
// +kubebuilder:printcolumn:name="Window",type=string,JSONPath=`.spec.window`
// +kubebuilder:printcolumn:name="Algorithm",type=string,JSONPath=`.status.effective.rates[0].algorithm`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Rates",type=string,priority=1,JSONPath=`.status.effective.summary`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type RateLimitPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired limit.
	// +required
	Spec RateLimitPolicySpec `json:"spec"`
	// status is the observed state of the policy. The operator writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status RateLimitPolicyStatus `json:"status,omitempty"`
}

// RateLimitPolicyList is a list of RateLimitPolicy.
//
// +kubebuilder:object:root=true
type RateLimitPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RateLimitPolicy `json:"items"`
}

// RateLimitPolicyStatus is the observed state of a policy.
type RateLimitPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status describes. It is -1 until the operator has processed the object.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Accepted, Programmed and Ready. Reconciling, Stalled, Degraded and Overridden are present only while they are
	// true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// limiters lists the Limiters that select the policy, and the state of the policy in each of them. If there are more than 16, those that do
	// not enforce this generation are listed first.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Limiters []PolicyLimiterStatus `json:"limiters,omitempty"`
	// omittedLimiters is the number of Limiters that select the policy and are not in limiters, because there are more than 16.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	OmittedLimiters int32 `json:"omittedLimiters,omitempty"`
	// overriddenBy lists the policies that decide in place of this one, by domain, while Overridden is true. If there are more than 16 domains,
	// it lists the first of them.
	// +optional
	// +listType=map
	// +listMapKey=domain
	// +kubebuilder:validation:MaxItems=16
	OverriddenBy []PolicyOverride `json:"overriddenBy,omitempty"`
	// overriddenDomains is the number of domains in which another policy decides in place of this one, while Overridden is true.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	OverriddenDomains int32 `json:"overriddenDomains,omitempty"`
	// effective is the compiled policy in canonical form.
	// +optional
	Effective *EffectivePolicy `json:"effective,omitempty"`
	// ancestors has an entry for each entry of spec.targetRefs, in the same order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Ancestors []PolicyAncestorStatus `json:"ancestors,omitempty"`
}

// PolicyOverride is another policy that decides in one domain.
type PolicyOverride struct {
	// domain in which the other policy decides.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Domain string `json:"domain"`
	// kind of the other policy. The namespace of a RateLimitPolicy is the domain.
	// +required
	Kind PolicyKind `json:"kind"`
	// name of the other policy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PolicyKind is a kind of policy.
// +kubebuilder:validation:Enum=RateLimitPolicy;ClusterRateLimitPolicy
type PolicyKind string

const (
	// PolicyKindNamespaced is a RateLimitPolicy.
	PolicyKindNamespaced PolicyKind = "RateLimitPolicy"
	// PolicyKindCluster is a ClusterRateLimitPolicy.
	PolicyKindCluster PolicyKind = "ClusterRateLimitPolicy"
)

// PolicyLimiterStatus is the state of the policy in one Limiter.
type PolicyLimiterStatus struct {
	// namespace is the namespace of the Limiter.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the name of the Limiter.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// revision is the content hash of the compiled policy. It changes if the enforced rules change.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
	// conditions describe the policy in this Limiter alone. Programmed is always present, Degraded only while it is true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// acknowledged is the number of live replicas that enforce this revision. It is present only while replicas are missing.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Acknowledged *int32 `json:"acknowledged,omitempty"`
	// replicas is the number of live replicas. It is present only while some of them do not enforce this revision.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Replicas *int32 `json:"replicas,omitempty"`
}

// EffectivePolicy is a compiled policy in canonical form.
type EffectivePolicy struct {
	// rates has each pair of a window and an algorithm in which the policy or one of its tiers has a limit. Those of requests in no tier come first.
	// +optional
	// +listType=map
	// +listMapKey=policy
	// +kubebuilder:validation:MaxItems=8
	Rates []EffectiveRate `json:"rates,omitempty"`
	// summary has the limits and windows of rates for requests in no tier, for people. For example: 10 per 1s, 1000 per 1d.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Summary string `json:"summary,omitempty"`
	// matchedBy is how requests are assigned to the routes of spec.targetRefs. RouteName: the gateway names the route of each request.
	// Request: spec.routeMatching of the Limiter has a Gateway for each of these routes, and the pods find the route of a request whose gateway
	// does not name it. It is absent without targetRefs.
	// +optional
	MatchedBy MatchedBy `json:"matchedBy,omitempty"`
}

// EffectiveRate is one rate of a compiled policy.
type EffectiveRate struct {
	// policy is the name in responses, logs and metrics: namespace/name, or namespace/name:window if the policy has several rates.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy"`
	// algorithm is the algorithm that counts units.
	// +required
	Algorithm Algorithm `json:"algorithm"`
	// limit is the number of units that each identifier can spend per window. 0 denies every request. It is absent if only tiers have this rate.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Limit *int64 `json:"limit,omitempty"`
	// window is the length of the window in its shortest form. For example: 1d.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Window string `json:"window"`
	// keyPattern is the pattern of the counter keys in Redis, with * in place of the Limiter or counter group, and of the identifier.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	KeyPattern string `json:"keyPattern"`
}
