package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RateLimitPolicy limits the requests of its namespace's domain: at most spec.limit units per spec.window for every
// identifier on spec.axis.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters: it stands in the rate-limit headers of every answer, in counter keys and in metrics"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ratelimitpolicies,singular=ratelimitpolicy,categories=weir,shortName=rlp
// +kubebuilder:selectablefield:JSONPath=`.spec.axis`
// +kubebuilder:selectablefield:JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Axis",type=string,JSONPath=`.spec.axis`
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.spec.limit`
// +kubebuilder:printcolumn:name="Window",type=string,JSONPath=`.spec.window`
// +kubebuilder:printcolumn:name="Algorithm",type=string,JSONPath=`.spec.algorithm`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Enforcement",type=string,priority=1,JSONPath=`.spec.enforcement`
type RateLimitPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is limited.
	// +required
	Spec RateLimitPolicySpec `json:"spec"`
	// status is what of it is enforced.
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

// RateLimitPolicySpec says who may do how much of what.
//
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'SlidingWindowLog' || self.limit <= 1000000",fieldPath=".limit",message="SlidingWindowLog remembers every admitted unit, so limit must be at most 1000000; use SlidingWindowCounter for more"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || self.algorithm in ['TokenBucket', 'LeakyBucket']",fieldPath=".burst",message="burst is the capacity of a TokenBucket or the queue of a LeakyBucket; remove it, or choose one of these algorithms"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || self.algorithm != 'TokenBucket' || self.burst > 0",fieldPath=".burst",message="a TokenBucket that holds nothing admits nothing; burst must be at least 1, or absent for the limit itself"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || !self.window.matches('^([1-9][0-9]{0,2}d|([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?)$') || self.burst * (self.window.endsWith('d') ? int(self.window.substring(0, size(self.window) - 1)) * 86400 : duration(self.window).getSeconds()) <= self.limit * 315360000",fieldPath=".burst",message="at this limit and window the burst takes longer than ten years to drain; lower it"
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'SlidingWindowLog' || !has(self.tiers) || self.tiers.all(t, !has(t.limit) || t.limit <= 1000000)",fieldPath=".tiers",message="SlidingWindowLog remembers every admitted unit, so the limit of a tier must be at most 1000000; use SlidingWindowCounter for more"
// +kubebuilder:validation:XValidation:rule="self.algorithm in ['TokenBucket', 'LeakyBucket'] || !has(self.tiers) || self.tiers.all(t, !has(t.burst))",fieldPath=".tiers",message="the burst of a tier is the capacity of a TokenBucket or the queue of a LeakyBucket; remove it, or choose one of these algorithms"
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'TokenBucket' || !has(self.tiers) || self.tiers.all(t, !has(t.burst) || t.burst > 0)",fieldPath=".tiers",message="a TokenBucket that holds nothing admits nothing; the burst of a tier must be at least 1, or absent for the tier's limit itself"
// +kubebuilder:validation:XValidation:rule="!has(self.tiers) || !self.window.matches('^([1-9][0-9]{0,2}d|([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?)$') || self.tiers.all(t, !has(t.burst) || !has(t.limit) || t.burst * (self.window.endsWith('d') ? int(self.window.substring(0, size(self.window) - 1)) * 86400 : duration(self.window).getSeconds()) <= t.limit * 315360000)",fieldPath=".tiers",message="at the limit of its tier and this window a burst takes longer than ten years to drain; lower the burst of the tier"
// +kubebuilder:validation:XValidation:rule="!has(self.cost) || !has(self.cost.value) || self.cost.value <= (self.algorithm == 'LeakyBucket' ? (has(self.burst) ? self.burst : 0) + 1 : self.algorithm == 'TokenBucket' && has(self.burst) ? self.burst : self.limit) || has(self.tiers) && self.tiers.exists(t, has(t.limit) ? self.cost.value <= (self.algorithm == 'LeakyBucket' ? (has(t.burst) ? t.burst : 0) + 1 : self.algorithm == 'TokenBucket' && has(t.burst) ? t.burst : t.limit) : has(t.unlimited) && t.unlimited)",fieldPath=".cost.value",message="every request costs more than is ever admitted at once, so that all would be denied; lower the cost, or raise the limit (of a TokenBucket or LeakyBucket the burst)"
// +kubebuilder:validation:XValidation:rule="self.axis != 'Endpoint' || !has(self.identifier)",fieldPath=".identifier",message="axis Endpoint counts by the endpoint itself; remove identifier, or choose the axis whose identifier it is and set scope: Endpoint"
// +kubebuilder:validation:XValidation:rule="self.axis != 'Custom' || has(self.identifier)",fieldPath=".identifier",message="axis Custom counts by what identifier says; give identifier, or choose the axis whose identifier Weir knows"
// +kubebuilder:validation:XValidation:rule="self.axis != 'Endpoint' || self.scope != 'Endpoint'",fieldPath=".scope",message="axis Endpoint already counts every endpoint by itself; remove scope: Endpoint"
// +kubebuilder:validation:XValidation:rule="!(self.axis in ['Namespace', 'ServiceAccount']) || has(self.match) && has(self.match.kubernetes)",fieldPath=".axis",message="axes Namespace and ServiceAccount are of writes to the Kubernetes API; give match.kubernetes, or choose another axis"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.match.kubernetes) || self.axis in ['Tenant', 'User', 'ServiceAccount', 'Namespace', 'Custom']",fieldPath=".axis",message="writes to the Kubernetes API are counted by Tenant, User, ServiceAccount, Namespace or Custom"
// +kubebuilder:validation:XValidation:rule="!has(self.identifier) || has(self.identifier.expression) || !has(self.match) || !has(self.match.kubernetes)",fieldPath=".identifier",message="a write to the Kubernetes API has no headers, query, cookies, claims and descriptors; give expression, or remove identifier"
// +kubebuilder:validation:XValidation:rule="!has(self.identifier) || !(self.axis in ['Namespace', 'ServiceAccount'])",fieldPath=".identifier",message="axes Namespace and ServiceAccount count by what they are called after; remove identifier, or choose axis Custom"
// +kubebuilder:validation:XValidation:rule="self.scope != 'Endpoint' || !has(self.match) || !has(self.match.kubernetes)",fieldPath=".scope",message="a write to the Kubernetes API has no endpoint; remove scope: Endpoint"
// +kubebuilder:validation:XValidation:rule="!has(self.tiers) || !has(self.match) || !has(self.match.kubernetes) || self.tiers.all(t, !has(t.when.header) && !has(t.when.cidrs))",fieldPath=".tiers",message="a write to the Kubernetes API has no headers and no address; tell tiers apart by identifiers, groups, namespaceSelector or expression"
// +kubebuilder:validation:XValidation:rule="!has(self.tiers) || has(self.match) && has(self.match.kubernetes) || self.tiers.all(t, !has(t.when.namespaceSelector))",fieldPath=".tiers",message="namespaceSelector is of writes to the Kubernetes API; give match.kubernetes, or tell tiers apart otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.cost) || !has(self.cost.header) || !has(self.match) || !has(self.match.kubernetes)",fieldPath=".cost",message="a write to the Kubernetes API has no headers; give the cost as value or expression"
type RateLimitPolicySpec struct {
	// axis is whose requests are counted together: those of one client address (IP), Tenant, User or API key (APIKey),
	// all requests to one Endpoint, or those of whatever identifier says (Custom). Of writes to the Kubernetes API: those of
	// one Tenant, User or ServiceAccount, in one Namespace, or Custom.
	// +required
	Axis Axis `json:"axis"`
	// limit is the units allowed per window.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Limit int64 `json:"limit"`
	// window is the length of the window: "30s", "1m", "1h30m", "24h" or "1d", from 1s to 720h (30d).
	// +required
	Window Window `json:"window"`
	// algorithm is how the window is counted: SlidingWindowLog is exact and remembers every admitted unit (limit at most
	// 1000000), SlidingWindowCounter needs two integers for a counter and has a small error.
	// +optional
	// +kubebuilder:default=SlidingWindowCounter
	Algorithm Algorithm `json:"algorithm,omitempty"`
	// burst is the capacity of a TokenBucket (absent: the limit), or how many units may wait in a LeakyBucket (absent: 0).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Burst *int64 `json:"burst,omitempty"`
	// identifier is where the identifier stands in a request. Absent: the Limiter's identity table decides
	// (IP: client address; Tenant: X-Tenant-ID; User: X-User-ID; APIKey: X-API-Key). Requests without one are counted
	// together, under the identifier "-". Axis Custom has no default, axis Endpoint no identifier.
	// +optional
	Identifier *Identifier `json:"identifier,omitempty"`
	// scope is what one counter covers: all requests that the Policy matches, or every Endpoint (the path of match that
	// a request met, else the request's own path) by itself.
	// +optional
	// +kubebuilder:default=Policy
	Scope Scope `json:"scope,omitempty"`
	// match is which requests are limited. Absent: all of the domain.
	// +optional
	Match *Match `json:"match,omitempty"`
	// tiers hold some of the requests to another limit, with the policy's algorithm and window: the first tier that a
	// request is of, else the limit of the policy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(t, self.exists_one(u, u.name == t.name))",message="two tiers have the same name; answers tell tiers apart by it, so give each its own"
	Tiers []Tier `json:"tiers,omitempty"`
	// cost is how many units a request costs. Absent: 1.
	// +optional
	Cost *Cost `json:"cost,omitempty"`
	// enforcement is what happens over the limit: Enforce denies, Shadow counts and reports and never denies.
	// +optional
	// +kubebuilder:default=Enforce
	Enforcement Enforcement `json:"enforcement,omitempty"`
	// onStoreFailure is what decides while Redis cannot be asked: Local lets every limiter replica admit its share of the
	// limit, Allow admits without counting, Deny refuses.
	// +optional
	// +kubebuilder:default=Local
	OnStoreFailure StoreFailure `json:"onStoreFailure,omitempty"`
}

// Axis is whose requests are counted together.
// +kubebuilder:validation:Enum=IP;Tenant;User;APIKey;Endpoint;Namespace;ServiceAccount;Custom
type Axis string

// The axes.
const (
	AxisIP       Axis = "IP"
	AxisTenant   Axis = "Tenant"
	AxisUser     Axis = "User"
	AxisAPIKey   Axis = "APIKey"
	AxisEndpoint Axis = "Endpoint"
	AxisCustom   Axis = "Custom"

	// AxisNamespace and AxisServiceAccount are of writes to the Kubernetes API.
	AxisNamespace      Axis = "Namespace"
	AxisServiceAccount Axis = "ServiceAccount"
)

// Window is a duration in whole seconds as text: hours, minutes and seconds ("1h30m"), or days alone ("1d").
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]?d$') ? int(self.substring(0, size(self) - 1)) <= 30 : self.matches('^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?$') && size(self) > 1 && duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="window must be from 1s to 720h, in whole hours, minutes and seconds (90s, 1h30m, 24h) or in days alone (1d to 30d)"
type Window string

// Algorithm is how a window is counted.
// +kubebuilder:validation:Enum=FixedWindow;SlidingWindowLog;SlidingWindowCounter;TokenBucket;LeakyBucket
type Algorithm string

// The algorithms.
const (
	FixedWindow          Algorithm = "FixedWindow"
	SlidingWindowLog     Algorithm = "SlidingWindowLog"
	SlidingWindowCounter Algorithm = "SlidingWindowCounter"
	TokenBucket          Algorithm = "TokenBucket"
	LeakyBucket          Algorithm = "LeakyBucket"
)

// Scope is what one counter covers.
// +kubebuilder:validation:Enum=Policy;Endpoint
type Scope string

// The scopes.
const (
	ScopePolicy   Scope = "Policy"
	ScopeEndpoint Scope = "Endpoint"
)

// Enforcement is what happens over the limit.
// +kubebuilder:validation:Enum=Enforce;Shadow
type Enforcement string

// The enforcements.
const (
	EnforcementEnforce Enforcement = "Enforce"
	EnforcementShadow  Enforcement = "Shadow"
)

// StoreFailure is what decides while Redis cannot be asked.
// +kubebuilder:validation:Enum=Local;Allow;Deny
type StoreFailure string

// What decides while Redis cannot be asked.
const (
	StoreFailureLocal StoreFailure = "Local"
	StoreFailureAllow StoreFailure = "Allow"
	StoreFailureDeny  StoreFailure = "Deny"
)

// RateLimitPolicyStatus is what of the policy is enforced.
type RateLimitPolicyStatus struct {
	// observedGeneration is the generation that this status speaks of; -1 until there is one.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Accepted, Programmed, Ready; Reconciling and Stalled only while true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// limiters that select the policy.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Limiters []PolicyLimiterStatus `json:"limiters,omitempty"`
	// effective is what the policy came out as.
	// +optional
	Effective *EffectivePolicy `json:"effective,omitempty"`
}

// PolicyLimiterStatus is how far one Limiter is with the policy.
type PolicyLimiterStatus struct {
	// namespace of the Limiter.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name of the Limiter.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// revision is the content hash of the compiled policy: it changes when what is enforced changes.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision"`
	// acknowledged is how many live replicas enforce that revision.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Acknowledged int32 `json:"acknowledged"`
	// replicas is how many replicas are alive.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Replicas int32 `json:"replicas"`
}

// EffectivePolicy is what a policy came out as, in canonical form.
type EffectivePolicy struct {
	// limit is the units allowed per window.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Limit int64 `json:"limit"`
	// window in canonical form: "24h0m0s".
	// +required
	// +kubebuilder:validation:MaxLength=16
	Window string `json:"window"`
	// keyPattern is where the counters lie in Redis, with * for the identifier.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	KeyPattern string `json:"keyPattern"`
	// script is the Lua script that decides.
	// +required
	Script ScriptReference `json:"script"`
}

// ScriptReference names a Lua script by content.
type ScriptReference struct {
	// name of the script.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// sha is the SHA-1 that Redis knows it by, in hex.
	// +required
	// +kubebuilder:validation:MaxLength=40
	SHA string `json:"sha"`
}
