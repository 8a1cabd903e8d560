package policyapi

// KubernetesMatch selects writes to the Kubernetes API. A write matches if it matches every field that is set. In a list, one matching
// entry is enough. The domain of a write is the namespace of its object, so a RateLimitPolicy limits writes in its own namespace only.
type KubernetesMatch struct {
	// resources lists the resources and the operations to limit. The API servers call the limiter only for these. Some writes are never
	// limited, for example deletions, evictions, and writes to the API groups weir.dev and rbac.authorization.k8s.io.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Resources []KubernetesResources `json:"resources"`
	// namespaces lists the namespaces of the objects. Cluster-scoped objects do not match. If omitted, the namespace is not checked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Namespaces []NamespaceName `json:"namespaces,omitempty"`
	// namespaceSelector selects objects by the labels of their namespace. An empty selector matches every object. Any other selector
	// does not match cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	NamespaceSelector *LabelSelector `json:"namespaceSelector,omitempty"`
	// users lists the user names whose writes are limited. For example: alice, system:serviceaccount:shop:deployer. If omitted, the
	// user name is not checked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Users []KubernetesUser `json:"users,omitempty"`
	// groups lists the user groups whose members' writes are limited. For example: system:serviceaccounts:shop. If omitted, the groups
	// of the user are not checked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Groups []KubernetesUser `json:"groups,omitempty"`
	// exceptUsers lists the user names whose writes are not limited. It takes precedence over users and groups.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ExceptUsers []KubernetesUser `json:"exceptUsers,omitempty"`
	// exceptGroups lists the user groups whose members' writes are not limited. It takes precedence over users and groups.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ExceptGroups []KubernetesUser `json:"exceptGroups,omitempty"`
	// expression is a CEL expression over request, which is an AdmissionRequest. The write matches if the expression evaluates to true.
	// For example: request.object.spec.parallelism > 10.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// KubernetesResources selects resources of the Kubernetes API and the operations on them.
type KubernetesResources struct {
	// apiGroups lists the API groups of the resources, without versions. "" is the core group and "*" is every group. For example: apps.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	APIGroups []APIGroup `json:"apiGroups"`
	// resources lists the resources by their plural names, for example pods, or deployments/scale for a subresource. "*" is every
	// resource without its subresources, "pods/*" is pods and all of its subresources, "*/scale" is the scale subresource of every
	// resource, and "*/*" is every resource and every subresource.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Resources []ResourceName `json:"resources"`
	// operations lists the operations to limit: CREATE, UPDATE or CONNECT. UPDATE includes patches and server-side apply. Deletions are never
	// limited. Defaults to CREATE.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Operations []Operation `json:"operations,omitempty"`
}

// APIGroup is an API group without a version. "" is the core group and "*" is every group.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^([*]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$')",message="an API group must be a DNS name without a version, such as apps or batch, an empty string for the core group, or * for every group"
type APIGroup string

// ResourceName is the plural name of a resource, optionally followed by a slash and a subresource. "*" matches every name.
// +kubebuilder:validation:MaxLength=127
// +kubebuilder:validation:XValidation:rule="self.matches('^([*]|[a-z0-9]([a-z0-9-]*[a-z0-9])?)(/([*]|[a-z0-9]([a-z0-9-]*[a-z0-9])?))?$')",message="a resource must be a plural name in lower case such as pods, a subresource such as deployments/scale, or * for every resource"
type ResourceName string

// Operation is an operation on an object of the Kubernetes API.
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self in ['CREATE', 'UPDATE', 'CONNECT']",message="operation must be CREATE, UPDATE or CONNECT; deletions are never limited, because a deletion frees what a limit protects"
type Operation string

const (
	// OperationCreate is the creation of an object.
	OperationCreate Operation = "CREATE"
	// OperationUpdate is an update, a patch or a server-side apply of an object.
	OperationUpdate Operation = "UPDATE"
	// OperationConnect is a connection to an object, for example pods/exec.
	OperationConnect Operation = "CONNECT"
)

// NamespaceName is the name of a namespace.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="the name of a namespace must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit"
type NamespaceName string

// KubernetesUser is the name of a user or of a user group, as the API server reports it.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type KubernetesUser string
