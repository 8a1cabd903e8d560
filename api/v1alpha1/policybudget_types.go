package v1alpha1

// PolicyBudget bounds the policies that a Limiter enforces, so that the policies of one namespace leave room for those of the others. If
// a budget is exceeded, the oldest policies stay enforced.
type PolicyBudget struct {
	// perNamespace bounds the RateLimitPolicies of one namespace. Defaults to 524288 bytes, 1000 rules, 100 expressions and 100 regular
	// expressions.
	// +optional
	PerNamespace BudgetLimits `json:"perNamespace,omitzero"`
	// total bounds all policies of the Limiter. A ClusterRateLimitPolicy takes precedence over every RateLimitPolicy. Defaults to 8388608
	// bytes, 20000 rules, 2000 expressions and 2000 regular expressions.
	// +optional
	Total BudgetLimits `json:"total,omitzero"`
}

// BudgetLimits are the limits of a budget. A limit that is omitted has its default.
type BudgetLimits struct {
	// bytes is the size of the compiled policies, before compression. For example, 16 tiers of 256 short identifiers are about 100 kB.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Bytes *int64 `json:"bytes,omitempty"`
	// rules is the number of policies.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Rules *int64 `json:"rules,omitempty"`
	// expressions is the number of CEL expressions in the policies.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Expressions *int64 `json:"expressions,omitempty"`
	// regularExpressions is the number of regular expressions in the policies.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	RegularExpressions *int64 `json:"regularExpressions,omitempty"`
}
