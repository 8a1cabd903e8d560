package policyapi

import (
	"strconv"
	"strings"
)

// RateLimitPolicySpec is a limit and the requests that it applies to.
//
// +kubebuilder:validation:XValidation:rule="has(self.rates) ? !has(self.limit) && !has(self.window) && !has(self.algorithm) && !has(self.burst) : has(self.limit) && has(self.window)",message="a policy must have either limit and window, or rates; with rates, limit, window, algorithm and burst are in each rate"
// +kubebuilder:validation:XValidation:rule="!has(self.rates) || !has(self.tiers) || self.tiers.all(t, !has(t.limit) || t.limit == 0)",fieldPath=".tiers",message="a tier of a policy with rates must have rates, limit: 0 or unlimited: true, because a limit alone has no window; use rates"
// +kubebuilder:validation:XValidation:rule="!has(self.limit) || !has(self.algorithm) || self.algorithm != 'SlidingWindowLog' || self.limit <= 1000000",fieldPath=".limit",message="limit must be at most 1000000 with algorithm SlidingWindowLog, which stores every admitted unit; use SlidingWindowCounter for a higher limit"
// +kubebuilder:validation:XValidation:rule="!has(self.window) || has(self.algorithm) && self.algorithm == 'FixedWindow' || size(self.window) < 2 || !self.window.matches('^([1-9][0-9]{0,2}d|([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?)$') || (self.window.endsWith('d') ? int(self.window.substring(0, size(self.window) - 1)) * 86400 : duration(self.window).getSeconds()) <= 2592000",fieldPath=".window",message="window must be at most 720h (30d), unless algorithm is FixedWindow; use a shorter window or FixedWindow"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || has(self.algorithm) && self.algorithm in ['TokenBucket', 'LeakyBucket']",fieldPath=".burst",message="burst is valid only with algorithm TokenBucket (capacity) or LeakyBucket (queue length); remove burst or use one of these algorithms"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || !has(self.algorithm) || self.algorithm != 'TokenBucket' || self.burst > 0",fieldPath=".burst",message="burst must be at least 1 with algorithm TokenBucket, because an empty bucket admits no request; omit burst to use limit as the capacity"
// +kubebuilder:validation:XValidation:rule="!has(self.window) || !has(self.limit) || !has(self.burst) || self.limit == 0 || !self.window.matches('^([1-9][0-9]{0,2}d|([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?)$') || self.burst * (self.window.endsWith('d') ? int(self.window.substring(0, size(self.window) - 1)) * 86400 : duration(self.window).getSeconds()) <= self.limit * 315360000",fieldPath=".burst",message="burst takes longer than ten years to drain at this limit and window; use a lower burst"
// +kubebuilder:validation:XValidation:rule="!has(self.algorithm) || self.algorithm != 'SlidingWindowLog' || !has(self.tiers) || self.tiers.all(t, !has(t.limit) || t.limit <= 1000000)",fieldPath=".tiers",message="the limit of a tier must be at most 1000000 with algorithm SlidingWindowLog, which stores every admitted unit; use SlidingWindowCounter for a higher limit"
// +kubebuilder:validation:XValidation:rule="has(self.algorithm) && self.algorithm in ['TokenBucket', 'LeakyBucket'] || !has(self.tiers) || self.tiers.all(t, !has(t.burst))",fieldPath=".tiers",message="the burst of a tier is valid only with algorithm TokenBucket (capacity) or LeakyBucket (queue length); remove burst or use one of these algorithms"
// +kubebuilder:validation:XValidation:rule="!has(self.algorithm) || self.algorithm != 'TokenBucket' || !has(self.tiers) || self.tiers.all(t, !has(t.burst) || t.burst > 0)",fieldPath=".tiers",message="the burst of a tier must be at least 1 with algorithm TokenBucket, because an empty bucket admits no request; omit burst to use the limit of the tier as the capacity"
// +kubebuilder:validation:XValidation:rule="!has(self.window) || !has(self.tiers) || !self.window.matches('^([1-9][0-9]{0,2}d|([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?)$') || self.tiers.all(t, !has(t.burst) || !has(t.limit) || t.limit == 0 || t.burst * (self.window.endsWith('d') ? int(self.window.substring(0, size(self.window) - 1)) * 86400 : duration(self.window).getSeconds()) <= t.limit * 315360000)",fieldPath=".tiers",message="the burst of a tier takes longer than ten years to drain at the limit of the tier and this window; use a lower burst"
// +kubebuilder:validation:XValidation:rule="!has(self.limit) || !has(self.cost) || !has(self.cost.value) || has(self.overrun) && self.overrun == 'Debt' || self.limit == 0 || self.cost.value <= (has(self.algorithm) && self.algorithm == 'LeakyBucket' ? (has(self.burst) ? self.burst : 0) + 1 : has(self.algorithm) && self.algorithm == 'TokenBucket' && has(self.burst) ? self.burst : self.limit) || has(self.tiers) && self.tiers.exists(t, has(t.limit) ? t.limit > 0 && self.cost.value <= (has(self.algorithm) && self.algorithm == 'LeakyBucket' ? (has(t.burst) ? t.burst : 0) + 1 : has(self.algorithm) && self.algorithm == 'TokenBucket' && has(t.burst) ? t.burst : t.limit) : has(t.unlimited) && t.unlimited)",fieldPath=".cost.value",message="every request costs more than the policy can ever admit, so every request would be denied; use a lower cost or a higher limit (for TokenBucket and LeakyBucket: a higher burst)"
// +kubebuilder:validation:XValidation:rule="self.axis != 'Endpoint' || !has(self.identifier)",fieldPath=".identifier",message="identifier must not be set with axis Endpoint, because the endpoint is the identifier; remove identifier, or use the axis of the identifier with scope: Endpoint"
// +kubebuilder:validation:XValidation:rule="self.axis != 'Custom' || has(self.identifier) && (has(self.identifier.header) || has(self.identifier.query) || has(self.identifier.cookie) || has(self.identifier.claim) || has(self.identifier.descriptor) || has(self.identifier.expression))",fieldPath=".identifier",message="identifier is required with axis Custom; set the source of the identifier, or use an axis that has a default identifier"
// +kubebuilder:validation:XValidation:rule="self.axis != 'Endpoint' || !has(self.scope) || self.scope != 'Endpoint'",fieldPath=".scope",message="scope: Endpoint must not be set with axis Endpoint, which already has one counter per endpoint; remove scope"
// +kubebuilder:validation:XValidation:rule="!(self.axis in ['Namespace', 'ServiceAccount']) || has(self.match) && has(self.match.kubernetes)",fieldPath=".axis",message="axes Namespace and ServiceAccount are valid only for writes to the Kubernetes API; set match.kubernetes or use another axis"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.match.kubernetes) || self.axis in ['Tenant', 'User', 'ServiceAccount', 'Namespace', 'Custom']",fieldPath=".axis",message="axis must be Tenant, User, ServiceAccount, Namespace or Custom with match.kubernetes"
// +kubebuilder:validation:XValidation:rule="!has(self.identifier) || has(self.identifier.expression) || !has(self.match) || !has(self.match.kubernetes)",fieldPath=".identifier",message="identifier must be an expression with match.kubernetes, because a write has no headers, query parameters, cookies, claims or descriptors; use identifier.expression or remove identifier"
// +kubebuilder:validation:XValidation:rule="!has(self.identifier) || !has(self.match) || !has(self.match.kubernetes) || !has(self.identifier.fallbacks) && !(has(self.identifier.onMissing) && self.identifier.onMissing == 'ClientAddress')",fieldPath=".identifier",message="identifier must not have fallbacks or onMissing: ClientAddress with match.kubernetes, because a write has no other source and no client address; use another expression, or another value of onMissing"
// +kubebuilder:validation:XValidation:rule="!has(self.identifier) || !(self.axis in ['Namespace', 'ServiceAccount'])",fieldPath=".identifier",message="identifier must not be set with axis Namespace or ServiceAccount; remove identifier or use axis Custom"
// +kubebuilder:validation:XValidation:rule="!has(self.scope) || self.scope != 'Endpoint' || !has(self.match) || !has(self.match.kubernetes)",fieldPath=".scope",message="scope: Endpoint must not be set with match.kubernetes, because a write has no endpoint; remove scope"
// +kubebuilder:validation:XValidation:rule="!has(self.tiers) || !has(self.match) || !has(self.match.kubernetes) || self.tiers.all(t, !has(t.when.header) && !has(t.when.cidrs))",fieldPath=".tiers",message="tiers must not use header or cidrs with match.kubernetes, because a write has no headers and no client address; use identifiers, groups, namespaceSelector or expression"
// +kubebuilder:validation:XValidation:rule="!has(self.tiers) || has(self.match) && has(self.match.kubernetes) || self.tiers.all(t, !has(t.when.namespaceSelector))",fieldPath=".tiers",message="tiers can use namespaceSelector only with match.kubernetes; set match.kubernetes or use another condition"
// +kubebuilder:validation:XValidation:rule="!has(self.cost) || !has(self.cost.header) || !has(self.match) || !has(self.match.kubernetes)",fieldPath=".cost",message="cost.header must not be set with match.kubernetes, because a write has no headers; use cost.value or cost.expression"
// +kubebuilder:validation:XValidation:rule="!has(self.lease) || (has(self.rates) ? self.rates.all(r, !has(r.algorithm) || r.algorithm != 'LeakyBucket') : !has(self.algorithm) || self.algorithm != 'LeakyBucket')",fieldPath=".lease",message="lease must not be set with algorithm LeakyBucket, because replicas cannot divide the turns of one queue; remove lease or use algorithm TokenBucket"
// +kubebuilder:validation:XValidation:rule="!has(self.window) || !has(self.lease) || !has(self.lease.maxAge) || !self.lease.maxAge.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?([0-9]{1,5}ms)?$') || size(self.lease.maxAge) < 2 || size(self.window) < 2 || !self.window.matches('^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?$') || duration(self.lease.maxAge) + duration(self.lease.maxAge) <= duration(self.window)",fieldPath=".lease.maxAge",message="maxAge must be at most half of the window; use a shorter maxAge or a longer window"
// +kubebuilder:validation:XValidation:rule="!has(self.overrun) || self.overrun != 'Debt' || (has(self.rates) ? self.rates.all(r, !has(r.algorithm) || r.algorithm in ['FixedWindow', 'SlidingWindowCounter']) : !has(self.algorithm) || self.algorithm in ['FixedWindow', 'SlidingWindowCounter'])",fieldPath=".overrun",message="overrun: Debt is valid only with algorithm FixedWindow or SlidingWindowCounter, whose counters can hold more units than the limit; use one of these algorithms or remove overrun"
// +kubebuilder:validation:XValidation:rule="!has(self.overrun) || self.overrun != 'Debt' || !has(self.lease)",fieldPath=".overrun",message="overrun: Debt is invalid with lease, because a replica cannot admit a debt from memory; remove overrun or lease"
// +kubebuilder:validation:XValidation:rule="!has(self.localShare) || self.localShare != 'Whole' || !has(self.onStoreFailure) || self.onStoreFailure == 'Local'",fieldPath=".localShare",message="localShare: Whole is valid only with onStoreFailure: Local, because the other values count nothing on the replicas; remove localShare or use onStoreFailure: Local"
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || self.storage != 'Compact' || (has(self.rates) ? self.rates.all(r, !has(r.algorithm) || r.algorithm in ['FixedWindow', 'SlidingWindowCounter']) : !has(self.algorithm) || self.algorithm in ['FixedWindow', 'SlidingWindowCounter'])",fieldPath=".storage",message="storage must be Exact with this algorithm, because only the counts of a window are small enough; use Exact, or algorithm SlidingWindowCounter or FixedWindow"
// +kubebuilder:validation:XValidation:rule="!has(self.targetRefs) || !has(self.match) || !has(self.match.descriptors) && !has(self.match.kubernetes) && !(has(self.match.http) && has(self.match.http.hosts))",fieldPath=".match",message="match must not have descriptors, kubernetes and http.hosts together with targetRefs, which select the requests instead; use other fields of match.http, or remove targetRefs"
// +kubebuilder:validation:XValidation:rule="!has(self.denial) || !has(self.match) || !has(self.match.kubernetes) || !has(self.denial.status) && !has(self.denial.contentType) && !has(self.denial.headers)",fieldPath=".denial",message="denial must have only message with match.kubernetes, because the API server sets the rest of the response; remove status, contentType and headers"
type RateLimitPolicySpec struct {
	// axis selects which requests are counted together. For HTTP and gRPC requests: IP (client address), Tenant, User, APIKey, Endpoint
	// (all requests to one endpoint) or Custom (the value of spec.identifier). For writes to the Kubernetes API: Tenant, User,
	// ServiceAccount, Namespace or Custom.
	// +required
	Axis Axis `json:"axis"`
	// limit is the number of units that each identifier can spend per window. A request costs 1 unit unless spec.cost sets another cost.
	// With algorithm SlidingWindowLog, the maximum is 1000000. 0 denies every request that no tier allows, also while Redis is unavailable.
	// Nothing is counted then, and the fields that describe counters have no effect. Either limit and window or rates are required.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Limit *int64 `json:"limit,omitempty"`
	// window is the length of the window: hours, minutes and seconds such as 30s, 1m, 1h30m or 24h, or days such as 1d. It must be from
	// 1s to 720h (30d), and with algorithm FixedWindow to 8760h (365d).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,2}d$') ? int(self.substring(0, size(self) - 1)) <= 365 : self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$') && size(self) > 1 && duration(self) >= duration('1s') && duration(self) <= duration('8760h')",message="window must be from 1s to 8760h, in whole hours, minutes and seconds (90s, 1h30m, 24h) or in days alone (1d to 365d)"
	Window Duration `json:"window,omitempty"`
	// algorithm is the algorithm that counts units. SlidingWindowLog is exact and stores every admitted unit. SlidingWindowCounter stores
	// three integers per counter and approximates the sliding window. FixedWindow starts each window at a multiple of its length (UTC).
	// TokenBucket admits a steady rate with bursts. LeakyBucket admits a steady rate and returns the delay of each request. Defaults to
	// SlidingWindowCounter.
	// +optional
	Algorithm Algorithm `json:"algorithm,omitempty"`
	// burst is the capacity of a TokenBucket, or the number of units that can wait in a LeakyBucket. Defaults to limit for TokenBucket and
	// to 0 for LeakyBucket. It is invalid with other algorithms.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Burst *int64 `json:"burst,omitempty"`
	// rates are several limits that apply together, in place of limit, window, algorithm and burst. A request is admitted only if it is
	// within all of them. A denied request is counted in no rate. Each rate counts as a policy of its own in the bounds of a request.
	// +optional
	// +listType=map
	// +listMapKey=window
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Rates []Rate `json:"rates,omitempty"`
	// identifier sets where a request carries the identifier. If omitted, spec.identity of the Limiter applies. Its defaults are the
	// client address for IP and the headers X-Tenant-ID for Tenant, X-User-ID for User and X-API-Key for APIKey. Requests without an
	// identifier are counted by their client address. The field is required with axis Custom, and invalid with axes Endpoint, Namespace and
	// ServiceAccount.
	// +optional
	Identifier *Identifier `json:"identifier,omitempty"`
	// scope selects what one counter covers. Policy: an identifier has one counter for all requests that the policy matches. Endpoint: an
	// identifier has one counter for each endpoint, which is the matching entry of match.http.paths, or the request path if there are
	// no such entries. Defaults to Policy.
	// +optional
	Scope Scope `json:"scope,omitempty"`
	// match selects the requests to limit. If omitted, the policy limits all HTTP and gRPC requests of the domain.
	// +optional
	Match *Match `json:"match,omitempty"`
	// targetRefs attaches the policy to objects of the Gateway API. It then limits only the requests for which the gateway names one of
	// these routes, or a route that one of these Gateways has accepted. Routes of other namespaces inherit the policy of a Gateway in its own
	// namespace, and share its counters. match.http can select some of them. The gateway must be configured to name the route of each request, for example with
	// includeRouteMetadata of Envoy Gateway. If omitted, the policy is not attached.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.kind == b.kind && a.name == b.name && (has(a.__namespace__) ? a.__namespace__ : '') == (has(b.__namespace__) ? b.__namespace__ : '') && (has(a.sectionName) ? a.sectionName : '') == (has(b.sectionName) ? b.sectionName : '')))",message="targetRefs must be unique; remove the repeated one"
	TargetRefs []TargetReference `json:"targetRefs,omitempty"`
	// tiers give some of the requests a different limit, or different rates. The first tier that matches a request applies. If no tier
	// matches, spec.limit or spec.rates apply. A policy and its tiers can have at most 8 different pairs of a window and an algorithm.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(t, self.exists_one(u, u.name == t.name))",message="tiers must have unique names, because responses identify a tier by its name; rename one of them"
	Tiers []Tier `json:"tiers,omitempty"`
	// cost is the number of units that a request costs. If omitted, a request costs 1 unit.
	// +optional
	Cost *Cost `json:"cost,omitempty"`
	// overrun decides what happens if a request costs more units than remain. Deny: the request is denied and counts nothing. Debt: the
	// request is allowed if at least one unit remains, and its whole cost counts, also the cost of requests that are denied. Use it for
	// costs that Envoy reports at the end of a response, such as tokens of a language model. It is valid only with algorithm FixedWindow or
	// SlidingWindowCounter, and invalid with lease. Defaults to Deny.
	// +optional
	Overrun Overrun `json:"overrun,omitempty"`
	// enforcement decides what happens to a request over the limit. Enforce denies it. Shadow counts and reports it, and never denies a
	// request. Defaults to Enforce.
	// +optional
	Enforcement Enforcement `json:"enforcement,omitempty"`
	// onStoreFailure decides what happens while Redis is unavailable. Local: each limiter replica enforces its share of the limit with
	// local counters. Allow: requests are admitted without counting. Deny: requests are rejected with an error (HTTP 503, gRPC
	// UNAVAILABLE). Defaults to Local.
	// +optional
	OnStoreFailure StoreFailure `json:"onStoreFailure,omitempty"`
	// localShare is what a limiter replica admits of a limit while Redis is unavailable, with onStoreFailure: Local. Equal: the replicas
	// divide what is left equally, and all of them together admit about the limit. Whole: each replica admits all that is left. Use Whole only
	// if all requests of an identifier come to one replica, for example over one HTTP/2 connection of a sidecar. A client that reaches R
	// replicas is admitted R times the limit. Whole is invalid with onStoreFailure Allow and Deny. Defaults to Equal.
	// +optional
	LocalShare LocalShare `json:"localShare,omitempty"`
	// lease lets a limiter replica spend units of a busy counter in Redis ahead, and admit requests from memory until they are used up. It then
	// admits slightly more than the limit in some windows. An empty object has the default bounds. It is invalid with algorithm LeakyBucket. A
	// request that a policy without a lease also limits is counted in Redis for all of its policies. If omitted, every request is counted in Redis
	// before it is admitted.
	// +optional
	Lease *Lease `json:"lease,omitempty"`
	// storage selects how Redis stores the counters. Exact: each counter has a key of its own, whose name contains the identifier.
	// Compact: counters are entries in shared hashes, under 64-bit hashes of their identifiers. Many identifiers then take about a tenth
	// of the memory, and identifiers with the same hash share a counter, which is improbable below a billion identifiers. Compact is valid
	// only with algorithm FixedWindow or SlidingWindowCounter. An edit starts new counters. Defaults to Exact.
	// +optional
	Storage Storage `json:"storage,omitempty"`
	// replaces lists names of ClusterRateLimitPolicies with precedence: Default. They do not limit the requests that this policy matches,
	// unless its enforcement is Shadow. If omitted, the policy applies in addition to all defaults.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Replaces []PolicyName `json:"replaces,omitempty"`
	// counterName is the name under which the policy counts. A policy that replaces another one under a new name keeps what has been spent if it
	// has the old name here. It cannot change later. Of two policies with the same counterName in a namespace, only the older one is enforced.
	// Defaults to metadata.name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="counterName must be the name of a policy: lower-case letters, digits, hyphens and dots, with a letter or digit at both ends"
	CounterName string `json:"counterName,omitempty"`
	// denial is the response to requests that the policy denies, at HTTP endpoints. If several policies deny a request, the one whose
	// denial lasts longest decides, and the response is its own. If omitted, the response is a problem document (RFC 9457) with status 429.
	// With match.kubernetes it can have only message.
	// +optional
	Denial *Denial `json:"denial,omitempty"`
}

// PolicyName is the name of a ClusterRateLimitPolicy.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="replaces must have names of ClusterRateLimitPolicies: lower-case letters, digits, hyphens and dots, with a letter or digit at both ends"
type PolicyName string

// Axis selects which requests are counted together.
// +kubebuilder:validation:Enum=IP;Tenant;User;APIKey;Endpoint;Namespace;ServiceAccount;Custom
type Axis string

const (
	// AxisIP counts the requests of one client address. An IPv6 address is counted by its prefix, /64 by default.
	AxisIP Axis = "IP"
	// AxisTenant counts the requests of one tenant.
	AxisTenant Axis = "Tenant"
	// AxisUser counts the requests of one user.
	AxisUser Axis = "User"
	// AxisAPIKey counts the requests of one API key. Weir stores, returns and logs only a hash of the key.
	AxisAPIKey Axis = "APIKey"
	// AxisEndpoint counts all requests to one endpoint.
	AxisEndpoint Axis = "Endpoint"
	// AxisCustom counts the requests with the same value of spec.identifier.
	AxisCustom Axis = "Custom"

	// AxisNamespace counts the writes to the Kubernetes API in one namespace. It requires match.kubernetes.
	AxisNamespace Axis = "Namespace"
	// AxisServiceAccount counts the writes of one service account to the Kubernetes API. It requires match.kubernetes.
	AxisServiceAccount Axis = "ServiceAccount"
)

// Algorithm is the algorithm that counts units.
// +kubebuilder:validation:Enum=FixedWindow;SlidingWindowLog;SlidingWindowCounter;TokenBucket;LeakyBucket
type Algorithm string

const (
	// FixedWindow counts units in windows that start at multiples of the window length (UTC).
	FixedWindow Algorithm = "FixedWindow"
	// SlidingWindowLog stores the time of every admitted unit. It is exact.
	SlidingWindowLog Algorithm = "SlidingWindowLog"
	// SlidingWindowCounter approximates a sliding window from the counts of the previous and the current window.
	SlidingWindowCounter Algorithm = "SlidingWindowCounter"
	// TokenBucket refills a bucket of burst tokens at a rate of limit tokens per window. A request takes tokens from the bucket.
	TokenBucket Algorithm = "TokenBucket"
	// LeakyBucket admits one unit every window/limit. Up to burst units can wait; the response states the delay.
	LeakyBucket Algorithm = "LeakyBucket"
)

// Scope selects what one counter covers.
// +kubebuilder:validation:Enum=Policy;Endpoint
type Scope string

const (
	// ScopePolicy has one counter per identifier for all requests that the policy matches.
	ScopePolicy Scope = "Policy"
	// ScopeEndpoint has one counter per identifier and endpoint.
	ScopeEndpoint Scope = "Endpoint"
)

// Overrun decides what happens if a request costs more units than remain.
// +kubebuilder:validation:Enum=Deny;Debt
type Overrun string

const (
	// OverrunDeny denies the request and counts nothing.
	OverrunDeny Overrun = "Deny"
	// OverrunDebt allows the request if at least one unit remains, and counts its whole cost in any case.
	OverrunDebt Overrun = "Debt"
)

// Enforcement decides what happens to a request over the limit.
// +kubebuilder:validation:Enum=Enforce;Shadow
type Enforcement string

const (
	// EnforcementEnforce denies requests over the limit.
	EnforcementEnforce Enforcement = "Enforce"
	// EnforcementShadow counts and reports, and never denies a request.
	EnforcementShadow Enforcement = "Shadow"
)

// StoreFailure decides what happens to a request while Redis is unavailable.
// +kubebuilder:validation:Enum=Local;Allow;Deny
type StoreFailure string

const (
	// StoreFailureLocal enforces a share of the limit in each limiter replica, with local counters.
	StoreFailureLocal StoreFailure = "Local"
	// StoreFailureAllow admits requests without counting.
	StoreFailureAllow StoreFailure = "Allow"
	// StoreFailureDeny rejects requests with an error.
	StoreFailureDeny StoreFailure = "Deny"
)

// LocalShare selects what a limiter replica admits of a limit while Redis is unavailable.
// +kubebuilder:validation:Enum=Equal;Whole
type LocalShare string

const (
	// LocalShareEqual divides what is left of the limit equally among the limiter replicas.
	LocalShareEqual LocalShare = "Equal"
	// LocalShareWhole lets each limiter replica admit all that is left of the limit.
	LocalShareWhole LocalShare = "Whole"
)

// Storage selects how Redis stores counters.
// +kubebuilder:validation:Enum=Exact;Compact
type Storage string

const (
	// StorageExact stores each counter under a key of its own.
	StorageExact Storage = "Exact"
	// StorageCompact stores counters in shared hashes, under hashes of their identifiers.
	StorageCompact Storage = "Compact"
)

// Lease bounds the units that limiter replicas spend ahead of requests.
type Lease struct {
	// maxShare is the largest part of the limit that all replicas together hold in leases of one counter, from 1% to 50%. A replica of R
	// holds at most 1/R of it. Defaults to 10%.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9]|[1-4][0-9]|50)%$')",message="maxShare must be a whole percentage from 1% to 50%"
	MaxShare Percentage `json:"maxShare,omitempty"`
	// maxAge is the longest time that a lease lasts, from 100ms to 10s, at most half of the window. Defaults to 1s, or to half of the
	// window if that is shorter.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?([0-9]{1,5}ms)?$') && size(self) > 1 && duration(self) >= duration('100ms') && duration(self) <= duration('10s')",message="maxAge must be from 100ms to 10s, such as 1s or 250ms"
	MaxAge Duration `json:"maxAge,omitempty"`
}

// Duration is a length of time: hours, minutes, seconds and milliseconds, each at most once, in this order and with at most five digits, such as
// 250ms, 30s or 1h30m; or days alone, such as 30d. Each field has bounds of its own. Except for days, it is a Duration of the Gateway API (GEP-2257).
// +kubebuilder:validation:MaxLength=16
type Duration string

// Percentage is a whole percentage, such as 80%. Each field has bounds of its own.
// +kubebuilder:validation:MaxLength=5
type Percentage string

// Int returns the number in front of the percent sign, 0 if the percentage is absent or invalid.
func (p Percentage) Int() int64 {
	number, _ := strconv.ParseInt(strings.TrimSuffix(string(p), "%"), 10, 64)
	return number
}
