package v1alpha1

// IdentifierBound bounds the live counters of each policy, and so the memory of Redis that clients can fill by inventing identifiers.
type IdentifierBound struct {
	// max is the number of live counters of a policy from which on new identifiers get no counter of their own. Identifiers that have a
	// live counter keep it. Each pod estimates the counters that its requests use, with an error of 3 percent. If omitted, there is no
	// such number. While Redis is nearly full, new identifiers of the policies with the most counters get no counter in any case.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=1000000000
	Max *int64 `json:"max,omitempty"`
	// overflow is what happens to new identifiers that get no counter of their own. Shared lets them share one counter. Deny denies them.
	// Defaults to Shared.
	// +optional
	// +kubebuilder:default=Shared
	Overflow IdentifierOverflow `json:"overflow,omitempty"`
}

// IdentifierOverflow is what happens to new identifiers of a policy that has reached its bound.
// +kubebuilder:validation:Enum=Shared;Deny
type IdentifierOverflow string

const (
	// OverflowShared lets them share one counter.
	OverflowShared IdentifierOverflow = "Shared"
	// OverflowDeny denies them.
	OverflowDeny IdentifierOverflow = "Deny"
)
