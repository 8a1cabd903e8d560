package policyapi

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
