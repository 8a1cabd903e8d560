package policyapi

// Tier gives some of the requests that a policy matches a different limit, or no limit.
// +kubebuilder:validation:XValidation:rule="[has(self.limit), has(self.rates), has(self.unlimited) && self.unlimited].exists_one(given, given)",message="a tier must have exactly one of limit, rates and unlimited: true"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || has(self.limit)",fieldPath=".burst",message="burst requires limit; remove burst or set the limit of the tier"
type Tier struct {
	// name is the name of the tier. It must be a DNS label and unique in the policy. Responses contain it. For example: paid.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="the name of a tier must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit"
	Name string `json:"name"`
	// when selects the requests of the tier.
	// +required
	When When `json:"when"`
	// limit is the number of units that an identifier in this tier can spend per window. 0 denies the requests of the tier without counting
	// them. The window and the algorithm are those of the policy, so that a policy with rates needs rates here too, or limit: 0. Exactly one
	// of limit, rates and unlimited: true is required.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Limit *int64 `json:"limit,omitempty"`
	// rates are the limits of this tier, in place of those of the policy. Their windows and algorithms can be others.
	// +optional
	// +listType=map
	// +listMapKey=window
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Rates []Rate `json:"rates,omitempty"`
	// burst has the meaning of spec.burst, in units, for this tier. The tier does not inherit spec.burst. Defaults to the limit of the
	// tier for TokenBucket and to 0 for LeakyBucket. It is invalid with other algorithms.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Burst *int64 `json:"burst,omitempty"`
	// unlimited admits the requests of the tier without counting them for this policy. Other policies still count them. Defaults to
	// false.
	// +optional
	Unlimited bool `json:"unlimited,omitempty"`
}

// Rate is a number of units per window.
// +kubebuilder:validation:XValidation:rule="!has(self.algorithm) || self.algorithm != 'SlidingWindowLog' || self.limit <= 1000000",fieldPath=".limit",message="limit must be at most 1000000 with algorithm SlidingWindowLog, which stores every admitted unit; use SlidingWindowCounter for a higher limit"
// +kubebuilder:validation:XValidation:rule="has(self.algorithm) && self.algorithm == 'FixedWindow' || size(self.window) < 2 || !self.window.matches('^([1-9][0-9]{0,2}d|([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?)$') || (self.window.endsWith('d') ? int(self.window.substring(0, size(self.window) - 1)) * 86400 : duration(self.window).getSeconds()) <= 2592000",fieldPath=".window",message="window must be at most 720h (30d), unless algorithm is FixedWindow; use a shorter window or FixedWindow"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || has(self.algorithm) && (self.algorithm == 'LeakyBucket' || self.algorithm == 'TokenBucket' && self.burst > 0)",fieldPath=".burst",message="burst is valid only with algorithm TokenBucket (capacity, at least 1) or LeakyBucket (queue length); remove burst or use one of these algorithms"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || !self.window.matches('^([1-9][0-9]{0,2}d|([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?)$') || self.burst * (self.window.endsWith('d') ? int(self.window.substring(0, size(self.window) - 1)) * 86400 : duration(self.window).getSeconds()) <= self.limit * 315360000",fieldPath=".burst",message="burst takes longer than ten years to drain at this limit and window; use a lower burst"
type Rate struct {
	// limit is the number of units that each identifier can spend per window. With algorithm SlidingWindowLog, the maximum is 1000000.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Limit int64 `json:"limit"`
	// window is the length of the window, as in spec.window. Each rate of a list must have another window.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,2}d$') ? int(self.substring(0, size(self) - 1)) <= 365 : self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$') && size(self) > 1 && duration(self) >= duration('1s') && duration(self) <= duration('8760h')",message="window must be from 1s to 8760h, in whole hours, minutes and seconds (90s, 1h30m, 24h) or in days alone (1d to 365d)"
	Window Duration `json:"window"`
	// algorithm is the algorithm that counts units, as in spec.algorithm. Defaults to SlidingWindowCounter.
	// +optional
	Algorithm Algorithm `json:"algorithm,omitempty"`
	// burst has the meaning of spec.burst, in units. It is invalid unless algorithm is TokenBucket or LeakyBucket.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Burst *int64 `json:"burst,omitempty"`
}

// When selects the requests of a tier. Exactly one field must be set. In a list, one matching entry is enough.
// +kubebuilder:validation:ExactlyOneOf=header;identifiers;cidrs;groups;namespaceSelector;expression
type When struct {
	// header is a condition on a request header.
	// +optional
	Header *HeaderMatch `json:"header,omitempty"`
	// identifiers lists identifiers on the axis of the policy, written as requests carry them. With axis APIKey, and for other
	// credentials, write "hash:" and the hash that weir hash prints, or the credentials in plain text: then every user who can read the
	// policy can read them. Limiters receive only hashes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Identifiers []TierIdentifier `json:"identifiers,omitempty"`
	// cidrs lists networks. The client address must be in at least one of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	CIDRs []CIDR `json:"cidrs,omitempty"`
	// groups lists groups of the caller. For HTTP and gRPC requests they are the values of the claim "groups"; Weir does not verify
	// tokens, so the proxy that sends the claims must have verified them. For writes to the Kubernetes API they are the user groups
	// that the API server reports.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Groups []Group `json:"groups,omitempty"`
	// namespaceSelector selects writes to the Kubernetes API by the labels of the namespace. It must not be empty.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="namespaceSelector must not be empty, because an empty selector selects every write; set matchLabels or matchExpressions"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	NamespaceSelector *LabelSelector `json:"namespaceSelector,omitempty"`
	// expression is a CEL expression over request. The request belongs to the tier if the expression evaluates to true. For example:
	// request.headers[?"x-plan"].orValue("free") == "paid".
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// TierIdentifier is an identifier as requests carry it, or the hash of a secret one behind "hash:".
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="!self.startsWith('hash:') || self.matches('^hash:[0-9a-f]{32}$')",message="a hash must consist of hash: and 32 hexadecimal digits in lower case, as weir hash prints it"
type TierIdentifier string

// Group is the name of a group of callers.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type Group string

// Cost is the number of units that a request costs. Exactly one field must be set.
// +kubebuilder:validation:ExactlyOneOf=value;header;expression
type Cost struct {
	// value is the number of units that every request costs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Value *int64 `json:"value,omitempty"`
	// header is the name of a request header that holds the number of units, 0 to 1000000000. If the header is missing or invalid, the
	// request costs 1 unit.
	// +optional
	Header *HeaderName `json:"header,omitempty"`
	// expression is a CEL expression over request that evaluates to the number of units, an int from 0 to 1000000000. A higher result
	// counts as 1000000000. If the request does not have what the expression reads, or the result is negative, it costs 1 unit. If the
	// expression fails for another reason, the request costs the whole limit. For example: request.method == "GET" ? 1 : 10.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}
