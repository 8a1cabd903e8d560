package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KubernetesMatch selects writes to the Kubernetes API. Every part that is given must match; within a list any one
// suffices. The domain of a write is the namespace of its object: a RateLimitPolicy limits those of its own namespace.
type KubernetesMatch struct {
	// resources that are written, and how. The API servers ask for these and for nothing else.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Resources []KubernetesResources `json:"resources"`
	// namespaces of the object. Objects that belong to none are in none of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Namespaces []NamespaceName `json:"namespaces,omitempty"`
	// namespaceSelector selects objects by the labels of their namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// users who write: "alice", "system:serviceaccount:shop:deployer".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Users []KubernetesUser `json:"users,omitempty"`
	// groups, of one of which who writes is: "system:serviceaccounts:shop".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Groups []KubernetesUser `json:"groups,omitempty"`
	// exceptUsers are users who are not limited.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ExceptUsers []KubernetesUser `json:"exceptUsers,omitempty"`
	// exceptGroups are groups whose members are not limited.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ExceptGroups []KubernetesUser `json:"exceptGroups,omitempty"`
	// expression is CEL over request, an AdmissionRequest, that comes out as true for the writes that match:
	// request.object.spec.parallelism > 10.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// KubernetesResources are resources, and what is done with them.
type KubernetesResources struct {
	// apiGroups: "" is the core group, "apps"; "*" is every group.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	APIGroups []APIGroup `json:"apiGroups"`
	// resources in the plural: "pods", "deployments/scale"; "*" is every resource, without subresources; "pods/*" is pods and
	// all subresources of them, "*/scale" the subresource of whatever resource, "*/*" everything.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Resources []ResourceName `json:"resources"`
	// operations: CREATE, UPDATE (patches and server-side apply too), DELETE, CONNECT. Absent: CREATE.
	// +optional
	// +listType=set
	// +kubebuilder:default={CREATE}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Operations []Operation `json:"operations,omitempty"`
}

// APIGroup is a group of the Kubernetes API, "" for the core group, or "*" for every group.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^([*]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$')",message="a group is a DNS name such as apps or batch, empty for the core group, or * for every group; leave its version out"
type APIGroup string

// ResourceName is a resource in the plural, or a subresource behind it and a slash; "*" stands for every one.
// +kubebuilder:validation:MaxLength=127
// +kubebuilder:validation:XValidation:rule="self.matches('^([*]|[a-z0-9]([a-z0-9-]*[a-z0-9])?)(/([*]|[a-z0-9]([a-z0-9-]*[a-z0-9])?))?$')",message="a resource is a name in the plural and in lower case such as pods, one of its subresources such as deployments/scale, or * for every one"
type ResourceName string

// Operation is what is done with an object.
// +kubebuilder:validation:Enum=CREATE;UPDATE;DELETE;CONNECT
type Operation string

// The operations.
const (
	OperationCreate  Operation = "CREATE"
	OperationUpdate  Operation = "UPDATE"
	OperationDelete  Operation = "DELETE"
	OperationConnect Operation = "CONNECT"
)

// NamespaceName is the name of a namespace.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="the name of a namespace is lower-case letters, digits and hyphens, and begins and ends with a letter or digit"
type NamespaceName string

// KubernetesUser is the name of a user or of a group, as API servers know them.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type KubernetesUser string

// KubernetesThrottle has API servers ask the Limiter about the writes that policies with match.kubernetes name. Only a
// Limiter in the namespace of the operator can: who registers a webhook speaks for the whole cluster.
type KubernetesThrottle struct {
	// enabled: API servers ask. Absent: they do.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// failurePolicy is what an API server does when no limiter answers in time: Ignore lets the write pass, Fail refuses it.
	// +optional
	// +kubebuilder:default=Ignore
	FailurePolicy WebhookFailure `json:"failurePolicy,omitempty"`
	// exemptNamespaces are namespaces in which nothing is limited.
	// +optional
	// +listType=set
	// +kubebuilder:default={"kube-system","kube-node-lease","kube-public","weir-system"}
	// +kubebuilder:validation:MaxItems=64
	ExemptNamespaces []NamespaceName `json:"exemptNamespaces,omitempty"`
	// exemptUsers are users who are never limited.
	// +optional
	// +listType=set
	// +kubebuilder:default={"system:apiserver","system:kube-controller-manager","system:kube-scheduler","system:kube-proxy"}
	// +kubebuilder:validation:MaxItems=64
	ExemptUsers []KubernetesUser `json:"exemptUsers,omitempty"`
	// exemptGroups are groups whose members are never limited.
	// +optional
	// +listType=set
	// +kubebuilder:default={"system:masters","kubeadm:cluster-admins","system:nodes","system:serviceaccounts:kube-system","system:serviceaccounts:weir-system"}
	// +kubebuilder:validation:MaxItems=64
	ExemptGroups []KubernetesUser `json:"exemptGroups,omitempty"`
	// maxRetryAfter bounds the wait that a denied client is told: clients obey it, and sleep. One that would have to wait for
	// longer is told none, and fails at once.
	// +optional
	// +kubebuilder:default="5s"
	MaxRetryAfter RetryAfter `json:"maxRetryAfter,omitempty"`
	// warnPercent of a limit: who has used as much is warned with every write that passes. 0 warns never.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	WarnPercent *int32 `json:"warnPercent,omitempty"`
}

// WebhookFailure is what an API server does when no limiter answers.
// +kubebuilder:validation:Enum=Ignore;Fail
type WebhookFailure string

// What an API server does when no limiter answers.
const (
	WebhookFailureIgnore WebhookFailure = "Ignore"
	WebhookFailureFail   WebhookFailure = "Fail"
)

// RetryAfter is a duration in whole seconds as text, 0s to 60s.
// +kubebuilder:validation:MaxLength=3
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,2}s$') && duration(self) <= duration('60s')",message="a time to wait is from 0s to 60s, in whole seconds"
type RetryAfter string
