package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Tier holds some of the requests that a policy matches to another limit than the policy's, or to none.
// +kubebuilder:validation:XValidation:rule="has(self.limit) != (has(self.unlimited) && self.unlimited)",message="a tier takes exactly one of limit and unlimited: true"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || has(self.limit)",fieldPath=".burst",message="a burst goes with a limit; remove it, or give the tier a limit"
type Tier struct {
	// name of the tier, which answers tell: a DNS label.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="the name of a tier is lower-case letters, digits and hyphens, and begins and ends with a letter or digit"
	Name string `json:"name"`
	// when says which requests are of the tier.
	// +required
	When When `json:"when"`
	// limit is the units allowed per window.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Limit *int64 `json:"limit,omitempty"`
	// burst as in the policy, whose own burst is not inherited. Absent: the limit of the tier for a TokenBucket, 0 for a
	// LeakyBucket.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Burst *int64 `json:"burst,omitempty"`
	// unlimited requests pass the policy uncounted.
	// +optional
	Unlimited bool `json:"unlimited,omitempty"`
}

// When says which requests are of a tier. Within a list any one suffices.
// +kubebuilder:validation:ExactlyOneOf=header;identifiers;cidrs;groups;namespaceSelector;expression
type When struct {
	// header of the request.
	// +optional
	Header *HeaderMatch `json:"header,omitempty"`
	// identifiers are those of the policy's axis. API keys stand here in plain text and are published hashed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Identifiers []TierIdentifier `json:"identifiers,omitempty"`
	// cidrs are networks, in one of which the client's address is.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	CIDRs []CIDR `json:"cidrs,omitempty"`
	// groups, of one of which the caller is by the claim "groups", or by the API server for a write to the Kubernetes API. Weir
	// verifies no token: the proxy that sends the claims vouches for them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Groups []Group `json:"groups,omitempty"`
	// namespaceSelector selects writes to the Kubernetes API by the labels of the namespace.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="an empty selector would put every write into the tier; give matchLabels or matchExpressions"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// expression is CEL over request that comes out as true for the requests of the tier.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// TierIdentifier is an identifier as requests carry it.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type TierIdentifier string

// Group is one of the groups of callers.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type Group string

// Cost is how many units a request costs.
// +kubebuilder:validation:ExactlyOneOf=value;header;expression
type Cost struct {
	// value is the same for every request.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Value *int64 `json:"value,omitempty"`
	// header names a request header that holds the units, 0 to 1000000000. Where it is missing or no such number: 1.
	// +optional
	Header *HeaderName `json:"header,omitempty"`
	// expression is CEL over request that comes out as an int, the units, 0 to 1000000000. Where it fails or is none: 1.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}
