package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limiter is a deployment of limiter pods. The pods share counters in one Redis and enforce the policies that the Limiter selects.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50",message="metadata.name must be at most 50 characters, because the Service is named weir-limiter-<name> and the name of a Service has at most 63"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name must not contain a dot, because it is part of the name of a Service, which is a DNS label"
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=limiters,singular=limiter,categories=weir,shortName=wlim
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Policies",type=integer,JSONPath=`.status.policies.accepted`
// +kubebuilder:printcolumn:name="Redis",type=boolean,JSONPath=`.status.redis.reachable`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Enforcing",type=integer,priority=1,JSONPath=`.status.enforcingReplicas`
// +kubebuilder:printcolumn:name="Rejected",type=integer,priority=1,JSONPath=`.status.policies.rejected`
type Limiter struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the deployment.
	// +required
	Spec LimiterSpec `json:"spec"`
	// status is the observed state of the deployment. The operator writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status LimiterStatus `json:"status,omitempty"`
}

// LimiterList is a list of Limiter.
//
// +kubebuilder:object:root=true
type LimiterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Limiter `json:"items"`
}

// LimiterSpec is the desired state of a Limiter.
// +kubebuilder:validation:XValidation:rule="!has(self.kubernetesThrottle) || has(self.kubernetesThrottle.mode) && self.kubernetesThrottle.mode == 'Disabled' || !has(self.redis.timeout) || duration(self.redis.timeout) <= duration('750ms')",message="redis.timeout must be at most 750ms with kubernetesThrottle, because an API server waits two seconds for a reply, which can take two round trips"
type LimiterSpec struct {
	// replicas is the number of pods. With autoscaling, it is the initial number. Defaults to 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// redis configures the Redis server or cluster that stores the counters.
	// +required
	Redis Redis `json:"redis"`
	// identifiers bounds how many counters each policy can have.
	// +optional
	Identifiers IdentifierBound `json:"identifiers,omitzero"`
	// counterGroup is the name of a group of Limiters that share counters: if two of them use the same Redis and select the same policy,
	// both together admit its limit. The group can contain Limiters of other namespaces and clusters. If omitted, a Limiter has counters
	// of its own. For example: checkout.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="counterGroup must be one or more lower-case letters, digits and hyphens, and begin and end with a letter or digit"
	CounterGroup string `json:"counterGroup,omitempty"`
	// policySelector selects policies by their labels. If omitted or empty, it selects all policies.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	PolicySelector *metav1.LabelSelector `json:"policySelector,omitempty"`
	// policyNamespaceSelector selects RateLimitPolicies by the labels of their namespace. It does not apply to a ClusterRateLimitPolicy,
	// which has no namespace. If omitted or empty, it selects the policies of all namespaces.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	PolicyNamespaceSelector *metav1.LabelSelector `json:"policyNamespaceSelector,omitempty"`
	// policyBudget bounds the size of the policies that the Limiter enforces, in each namespace and in total.
	// +optional
	PolicyBudget PolicyBudget `json:"policyBudget,omitzero"`
	// identity sets where requests carry their identifiers. It applies to policies without spec.identifier.
	// +optional
	Identity IdentityTable `json:"identity,omitzero"`
	// responseHeaders is the family of rate-limit headers in responses. RateLimit sends RateLimit-Policy and RateLimit. XRateLimit sends
	// X-RateLimit-* with the seconds until the reset. GitHub sends X-RateLimit-* with the Unix time of the reset. None sends no
	// rate-limit headers. Defaults to RateLimit.
	// +optional
	ResponseHeaders ResponseHeaders `json:"responseHeaders,omitempty"`
	// endpoints configures the ports of the pods: TLS, who can refund, and what the pods read from proxies.
	// +optional
	Endpoints Endpoints `json:"endpoints,omitzero"`
	// routeMatching lets the pods find the route of a request, for Gateways that do not name it.
	// +optional
	RouteMatching RouteMatching `json:"routeMatching,omitzero"`
	// networkPolicy configures which peers can connect to the pods.
	// +optional
	NetworkPolicy LimiterNetworkPolicy `json:"networkPolicy,omitzero"`
	// logLevel is the minimum level of the log messages of the pods: Debug, Info, Warn or Error. Defaults to Info.
	// +optional
	LogLevel LogLevel `json:"logLevel,omitempty"`
	// decisionLog selects the decisions that the pods write to their standard output. If omitted, no decisions are written.
	// +optional
	DecisionLog DecisionLog `json:"decisionLog,omitzero"`
	// tracing sends traces of sampled requests to an OpenTelemetry collector. If omitted, no requests are traced.
	// +optional
	Tracing Tracing `json:"tracing,omitzero"`
	// kubernetesThrottle registers the pods as an admission webhook that limits writes to the Kubernetes API. If omitted, no webhook is
	// registered.
	// +optional
	KubernetesThrottle *KubernetesThrottle `json:"kubernetesThrottle,omitempty"`
	// image is the container image of the pods. If omitted, the operator uses its configured limiter image. For example:
	// registry.example/weir:v1.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^[:space:]]+$')",message="image must be an image reference without spaces, such as registry.example/weir:v1"
	Image string `json:"image,omitempty"`
	// podTemplate adds settings to the pods, such as resources, tolerations and labels.
	// +optional
	PodTemplate PodTemplate `json:"podTemplate,omitzero"`
	// autoscaling scales the number of pods by their CPU utilization. If omitted, replicas sets the number of pods.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// podDisruptionBudget limits how many pods a voluntary disruption, such as a node drain, can evict at the same time.
	// +optional
	PodDisruptionBudget DisruptionBudget `json:"podDisruptionBudget,omitzero"`
}

// ResponseHeaders is a family of rate-limit headers.
// +kubebuilder:validation:Enum=RateLimit;XRateLimit;GitHub;None
type ResponseHeaders string

const (
	// ResponseHeadersRateLimit sends RateLimit-Policy and RateLimit.
	ResponseHeadersRateLimit ResponseHeaders = "RateLimit"
	// ResponseHeadersXRateLimit sends X-RateLimit-* headers. The reset is a number of seconds.
	ResponseHeadersXRateLimit ResponseHeaders = "XRateLimit"
	// ResponseHeadersGitHub sends X-RateLimit-* headers. The reset is a Unix time in seconds.
	ResponseHeadersGitHub ResponseHeaders = "GitHub"
	// ResponseHeadersNone sends no rate-limit headers.
	ResponseHeadersNone ResponseHeaders = "None"
)

// LimiterStatus is the observed state of a Limiter.
type LimiterStatus struct {
	// observedGeneration is the generation of the spec that this status describes. It is -1 until the operator has processed the object.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Accepted, Programmed and Ready. With kubernetesThrottle, ThrottleRegistered is added. Reconciling, Stalled,
	// Degraded and CountsSeparately are present only while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// replicas is the current number of pods.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Replicas int32 `json:"replicas,omitempty"`
	// readyReplicas is the number of ready pods.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// selector is the label selector of the pods in text form. The scale subresource uses it for autoscalers.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`
	// certificates lists the certificates in Secrets of the Limiter, and when they expire.
	// +optional
	// +listType=map
	// +listMapKey=use
	// +kubebuilder:validation:MaxItems=8
	Certificates []LimiterCertificate `json:"certificates,omitempty"`
	// revision is the content hash of the rules that the operator has published to the replicas.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
	// enforcingReplicas is the number of live replicas that enforce every rule of this revision.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	EnforcingReplicas int32 `json:"enforcingReplicas,omitempty"`
	// localMode describes the replicas that decide without Redis. It is present only while there are some.
	// +optional
	LocalMode *LocalModeState `json:"localMode,omitempty"`
	// policies counts the selected policies.
	// +optional
	Policies *PolicyCount `json:"policies,omitempty"`
	// redis is the state of Redis as the operator observes it.
	// +optional
	Redis *RedisState `json:"redis,omitempty"`
	// scripts lists the Lua scripts that decide requests, and the number of Redis primaries that have loaded each of them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Scripts []LoadedScript `json:"scripts,omitempty"`
}

// LocalModeState describes the replicas that decide without Redis.
type LocalModeState struct {
	// replicas is the number of these replicas.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Replicas int32 `json:"replicas"`
	// since is when the first of them began to decide without Redis. It is absent if no replica reports it.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// PolicyCount counts the policies that a Limiter selects.
type PolicyCount struct {
	// accepted is the number of policies that compile.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Accepted int32 `json:"accepted"`
	// rejected is the number of policies that do not compile. The status of each policy states the reason.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Rejected int32 `json:"rejected"`
}

// RedisState is the state of Redis as the operator observes it.
type RedisState struct {
	// reachable is true if Redis replies to the operator.
	// +required
	Reachable bool `json:"reachable"`
	// unreachableSince is when the operator began to fail to use Redis, in whole seconds. An operator that starts during the outage begins with its
	// first attempt. The field is present only while reachable is false, and absent if the time is unknown.
	// +optional
	UnreachableSince *metav1.Time `json:"unreachableSince,omitempty"`
	// primaries is the number of Redis primaries that store counters.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Primaries int32 `json:"primaries,omitempty"`
	// version is the lowest Redis version among the primaries. For example: 7.2.4.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// LoadedScript is a Lua script and the number of Redis primaries that have loaded it.
type LoadedScript struct {
	// name is the name of the script.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// sha is the SHA-1 of the script in hexadecimal form. Redis identifies the script by it.
	// +required
	// +kubebuilder:validation:MaxLength=40
	SHA string `json:"sha"`
	// loadedOn is the number of Redis primaries that have loaded the script.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	LoadedOn int32 `json:"loadedOn"`
}

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

// DecisionLog selects the decisions that the pods write to their standard output, as JSON.
type DecisionLog struct {
	// denialsPerSecond is the number of denials that each pod writes per second. More denials are dropped, and counted in
	// weir_decision_log_dropped_total. If omitted or 0, denials are not written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	DenialsPerSecond int32 `json:"denialsPerSecond,omitempty"`
	// sampleOneIn writes one in so many of the decisions that are no denials. 1 writes all. If omitted or 0, they are not written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	SampleOneIn int32 `json:"sampleOneIn,omitempty"`
	// identifiers is how identifiers appear in the log. Counted writes them as they are counted: API keys are hashed. Hashed hashes all
	// of them. Omitted writes no identifiers. Defaults to Counted.
	// +optional
	Identifiers LoggedIdentifiers `json:"identifiers,omitempty"`
}

// LoggedIdentifiers is how identifiers appear in a decision log.
// +kubebuilder:validation:Enum=Counted;Hashed;Omitted
type LoggedIdentifiers string

const (
	// LoggedIdentifiersCounted writes identifiers as they are counted.
	LoggedIdentifiersCounted LoggedIdentifiers = "Counted"
	// LoggedIdentifiersHashed hashes identifiers.
	LoggedIdentifiersHashed LoggedIdentifiers = "Hashed"
	// LoggedIdentifiersOmitted omits identifiers.
	LoggedIdentifiersOmitted LoggedIdentifiers = "Omitted"
)

// Tracing makes the pods send OpenTelemetry traces of sampled requests to a collector.
type Tracing struct {
	// endpoint is the URL of the collector, which receives OTLP over gRPC: http:// or, with TLS, https://, the host and the port. If omitted, no
	// requests are traced. The generated NetworkPolicy allows connections to this port.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=266
	// +kubebuilder:validation:Pattern=`^https?://([a-zA-Z0-9]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$`
	Endpoint string `json:"endpoint,omitempty"`
	// sampleOneIn traces one in so many of the requests without a W3C trace context. If omitted or 0, they are not traced. If a request has
	// a trace context, its caller decides whether it is traced.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	SampleOneIn int32 `json:"sampleOneIn,omitempty"`
}
