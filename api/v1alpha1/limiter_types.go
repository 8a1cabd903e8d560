package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Limiter is one deployment of limiters: pods that share counters in one Redis and enforce the policies it selects.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50",message="metadata.name must be at most 50 characters: the objects of a Limiter are called weir-limiter-<name>, and the name of a Service holds 63"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name must not have a dot: it is part of the name of a Service, which is a DNS label"
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=limiters,singular=limiter,categories=weir,shortName=wlim
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Policies",type=integer,JSONPath=`.status.policies.accepted`
// +kubebuilder:printcolumn:name="Redis",type=boolean,JSONPath=`.status.redis.reachable`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Rejected",type=integer,priority=1,JSONPath=`.status.policies.rejected`
type Limiter struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to run.
	// +required
	Spec LimiterSpec `json:"spec"`
	// status is what runs.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status LimiterStatus `json:"status,omitempty"`
}

// LimiterList is a list of Limiters.
// +kubebuilder:object:root=true
type LimiterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Limiter `json:"items"`
}

// LimiterSpec is what is to run.
// +kubebuilder:validation:XValidation:rule="!has(self.kubernetesThrottle) || !self.kubernetesThrottle.enabled || duration(self.redis.timeout) <= duration('750ms')",message="with kubernetesThrottle redis.timeout is at most 750ms: API servers wait two seconds for an answer, and one may take two round trips"
type LimiterSpec struct {
	// replicas is the number of pods; with autoscaling the number to begin with.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// redis holds the counters.
	// +required
	Redis Redis `json:"redis"`
	// policySelector selects policies by their labels. Absent: all.
	// +optional
	PolicySelector *LabelSelector `json:"policySelector,omitempty"`
	// policyNamespaceSelector selects policies by the labels of their namespace; a ClusterRateLimitPolicy has none and is
	// selected by policySelector alone. Absent: all.
	// +optional
	PolicyNamespaceSelector *LabelSelector `json:"policyNamespaceSelector,omitempty"`
	// identity is where requests carry their identifiers, for policies that do not say.
	// +optional
	// +kubebuilder:default={}
	Identity IdentityTable `json:"identity,omitzero"`
	// responseHeaders is the family of rate-limit headers in responses: RateLimit (RateLimit-Policy, RateLimit), XRateLimit
	// (X-RateLimit-*, seconds until reset), GitHub (X-RateLimit-*, time of reset) or None.
	// +optional
	// +kubebuilder:default=RateLimit
	ResponseHeaders ResponseHeaders `json:"responseHeaders,omitempty"`
	// kubernetesThrottle has API servers ask the pods about writes to the Kubernetes API. Absent: they do not.
	// +optional
	KubernetesThrottle *KubernetesThrottle `json:"kubernetesThrottle,omitempty"`
	// image of the pods. Absent: the one that the operator was told.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^[:space:]]+$')",message="an image is a reference such as registry.example/weir:v1, without spaces"
	Image string `json:"image,omitempty"`
	// podTemplate is what the pods have beside what every limiter has.
	// +optional
	PodTemplate PodTemplate `json:"podTemplate,omitzero"`
	// autoscaling changes the number of pods by their use of CPU. Absent: replicas says it.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// podDisruptionBudget is how many pods may be away at once while nodes are drained.
	// +optional
	// +kubebuilder:default={}
	PodDisruptionBudget DisruptionBudget `json:"podDisruptionBudget,omitzero"`
}

// ResponseHeaders is a family of rate-limit headers.
// +kubebuilder:validation:Enum=RateLimit;XRateLimit;GitHub;None
type ResponseHeaders string

// The families of rate-limit headers.
const (
	ResponseHeadersRateLimit  ResponseHeaders = "RateLimit"
	ResponseHeadersXRateLimit ResponseHeaders = "XRateLimit"
	ResponseHeadersGitHub     ResponseHeaders = "GitHub"
	ResponseHeadersNone       ResponseHeaders = "None"
)

// LimiterStatus is what runs.
type LimiterStatus struct {
	// observedGeneration is the generation that this status speaks of; -1 until there is one.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Accepted, Programmed, Ready; Reconciling, Stalled and Degraded only while true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// replicas is the number of pods.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Replicas int32 `json:"replicas,omitempty"`
	// readyReplicas is how many of them are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// selector of the pods as text, for kubectl scale and autoscalers.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`
	// revision is the content hash of the rules that the replicas are told.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
	// policies is what became of the policies selected.
	// +optional
	Policies *PolicyCount `json:"policies,omitempty"`
	// redis is what the operator sees of it.
	// +optional
	Redis *RedisState `json:"redis,omitempty"`
	// scripts that decide, and where they are loaded.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Scripts []LoadedScript `json:"scripts,omitempty"`
}

// PolicyCount is how many policies compile and how many do not.
type PolicyCount struct {
	// accepted is how many compile.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Accepted int32 `json:"accepted"`
	// rejected is how many do not, which their own status explains.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Rejected int32 `json:"rejected"`
}

// RedisState is what the operator sees of Redis.
type RedisState struct {
	// reachable: it answers.
	// +required
	Reachable bool `json:"reachable"`
	// primaries is how many hold counters.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Primaries int32 `json:"primaries,omitempty"`
	// version of the oldest primary.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// LoadedScript is a Lua script and where it is loaded.
type LoadedScript struct {
	ScriptReference `json:",inline"`
	// loadedOn is how many primaries hold it.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	LoadedOn int32 `json:"loadedOn"`
}
