package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KubernetesThrottle registers the Limiter as an admission webhook for the writes that policies with match.kubernetes select. Only a
// Limiter in the operator's namespace can be registered, because an admission webhook affects the whole cluster. Only a Limiter with
// kubernetesThrottle selects policies with match.kubernetes.
// +kubebuilder:validation:XValidation:rule="has(self.namespacedPolicySelector) == (has(self.namespacedPolicies) && self.namespacedPolicies == 'Selected')",message="namespacedPolicySelector is required with namespacedPolicies Selected, and must not be set otherwise; {} selects every namespace"
type KubernetesThrottle struct {
	// mode decides whether API servers call the Limiter. Enforce registers the webhook. Disabled removes the webhook and keeps the other
	// settings. Defaults to Enforce.
	// +optional
	Mode ThrottleMode `json:"mode,omitempty"`
	// failurePolicy decides what the API server does if no limiter pod replies in time. Ignore admits the write. Fail rejects it.
	// Defaults to Ignore.
	// +optional
	FailurePolicy WebhookFailure `json:"failurePolicy,omitempty"`
	// namespacedPolicies decides which RateLimitPolicies may limit writes. Users who can write such a policy can block the writes of all
	// other users in its namespace, except those that are never limited. None: only ClusterRateLimitPolicies limit writes. Selected: also
	// the RateLimitPolicies in the namespaces that namespacedPolicySelector selects. Defaults to None.
	// +optional
	NamespacedPolicies NamespacedPolicies `json:"namespacedPolicies,omitempty"`
	// namespacedPolicySelector selects namespaces by their labels. It is required with namespacedPolicies Selected, and must not be set
	// otherwise. An empty selector selects every namespace.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	NamespacedPolicySelector *metav1.LabelSelector `json:"namespacedPolicySelector,omitempty"`
	// additionalExemptNamespaces lists further namespaces in which no write is limited. Always exempt are kube-system, kube-node-lease,
	// kube-public and the namespace of the Limiter.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	AdditionalExemptNamespaces []NamespaceName `json:"additionalExemptNamespaces,omitempty"`
	// additionalExemptUsers lists further user names whose writes are never limited. Always exempt are the API server,
	// kube-controller-manager, cloud-controller-manager, kube-scheduler and kube-proxy.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	AdditionalExemptUsers []KubernetesUser `json:"additionalExemptUsers,omitempty"`
	// additionalExemptGroups lists further user groups whose members' writes are never limited. Always exempt are cluster administrators
	// (system:masters and kubeadm:cluster-admins), nodes, also while they join (system:bootstrappers), and the service accounts of exempt
	// namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	AdditionalExemptGroups []KubernetesUser `json:"additionalExemptGroups,omitempty"`
	// maxRetryAfter is the longest delay that a response asks a denied client to wait. Kubernetes clients sleep for that delay and try again. If
	// the delay would be longer, the reply has no delay and the client fails immediately. 0s to 1m, in whole seconds. Defaults to 5s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?([0-9]{1,5}ms)?$') && size(self) > 1 && duration(self) >= duration('0s') && duration(self) <= duration('1m') && duration(self).getMilliseconds() % 1000 == 0",message="maxRetryAfter must be from 0s to 1m, in whole seconds, for example 5s"
	MaxRetryAfter Duration `json:"maxRetryAfter,omitempty"`
	// warnAt is the part of a limit from which on each admitted write returns a warning to the client, from 0% to 100%. 0% disables warnings.
	// Defaults to 80%.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]?|100)%$')",message="warnAt must be a whole percentage from 0% to 100%"
	WarnAt Percentage `json:"warnAt,omitempty"`
}

// ThrottleMode decides whether API servers call the Limiter.
// +kubebuilder:validation:Enum=Enforce;Disabled
type ThrottleMode string

const (
	// ThrottleModeEnforce registers the webhook.
	ThrottleModeEnforce ThrottleMode = "Enforce"
	// ThrottleModeDisabled removes the webhook.
	ThrottleModeDisabled ThrottleMode = "Disabled"
)

// WebhookFailure decides what the API server does if no limiter pod replies in time.
// +kubebuilder:validation:Enum=Ignore;Fail
type WebhookFailure string

const (
	// WebhookFailureIgnore admits the write.
	WebhookFailureIgnore WebhookFailure = "Ignore"
	// WebhookFailureFail rejects the write.
	WebhookFailureFail WebhookFailure = "Fail"
)

// NamespacedPolicies decides which RateLimitPolicies may limit writes to the Kubernetes API.
// +kubebuilder:validation:Enum=None;Selected
type NamespacedPolicies string

const (
	// NamespacedPoliciesNone admits no RateLimitPolicy.
	NamespacedPoliciesNone NamespacedPolicies = "None"
	// NamespacedPoliciesSelected admits those in selected namespaces.
	NamespacedPoliciesSelected NamespacedPolicies = "Selected"
)
