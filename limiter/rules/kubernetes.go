package rules

// KubernetesRequest is a write to the Kubernetes API: the AdmissionRequest of admission.k8s.io/v1 that an API server sends.
type KubernetesRequest struct {
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string
	// Group, Version, Resource and Subresource of the object, for example "apps", "v1", "deployments", "scale".
	Group, Version, Resource, Subresource string
	// Kind of the object, for example "Deployment".
	Kind string
	// Namespace and Name of the object. Namespace is empty for a cluster-scoped object. Name is empty if the API server has not
	// generated it yet. Namespace is also the Domain of the Request.
	Namespace, Name string
	// User is the name of the user, Groups are the groups of the user, and Extra has the other attributes that the authenticator
	// reports.
	User   string
	Groups []string
	Extra  map[string][]string
	// DryRun is true if the API server does not store the object.
	DryRun bool
	// Object is the new object, OldObject is the existing object, and Options are the options of the operation, as JSON. Each is
	// nil if absent. They are decoded only if an expression reads them.
	Object, OldObject, Options []byte
}

// KubernetesWrite returns the request of a write, in the domain of its namespace. A Namespace object is cluster-scoped, although API servers name the
// object itself as its namespace: KubernetesWrite clears write.Namespace then.
func KubernetesWrite(write *KubernetesRequest) Request {
	if write.Group == "" && write.Resource == "namespaces" {
		write.Namespace = ""
	}
	return Request{Domain: write.Namespace, Kubernetes: write}
}

// KubernetesMatch selects writes to the Kubernetes API. A write must match every field that is set. In a list, one matching element
// is enough.
type KubernetesMatch struct {
	Resources         []KubernetesResources `json:"resources"`
	Namespaces        []string              `json:"namespaces,omitempty"`
	NamespaceSelector Selector              `json:"namespaceSelector,omitempty"`
	Users             []string              `json:"users,omitempty"`
	Groups            []string              `json:"groups,omitempty"`
	ExceptUsers       []string              `json:"exceptUsers,omitempty"`
	ExceptGroups      []string              `json:"exceptGroups,omitempty"`
}

// KubernetesResources selects resources ("pods", "deployments/scale", "*") of API groups ("", "apps", "*"), and operations on them.
type KubernetesResources struct {
	APIGroups  []string `json:"groups"`
	Resources  []string `json:"resources"`
	Operations []string `json:"operations"`
}

// Selector selects namespaces by their labels. A namespace must meet every requirement. An empty selector selects all namespaces,
// including unknown ones.
type Selector []Requirement

// Requirement is a requirement on one label.
type Requirement struct {
	Key      string           `json:"key"`
	Operator SelectorOperator `json:"operator"`
	Values   []string         `json:"values,omitempty"`
}

// SelectorOperator is the operator of a requirement.
type SelectorOperator string

// The operators of a requirement.
const (
	SelectorIn           SelectorOperator = "In"
	SelectorNotIn        SelectorOperator = "NotIn"
	SelectorExists       SelectorOperator = "Exists"
	SelectorDoesNotExist SelectorOperator = "DoesNotExist"
)

// Namespace is what rules can read of a namespace.
type Namespace struct {
	Name string `json:"name"`
	// Labels has only the labels that some rule reads.
	Labels map[string]string `json:"labels,omitempty"`
	// Tenant of the namespace. Empty if the tenant is the name of the namespace.
	Tenant string `json:"tenant,omitempty"`
}
