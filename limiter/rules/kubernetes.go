package rules

// KubernetesRequest is a write to the Kubernetes API, as an API server asks about it (AdmissionRequest of
// admission.k8s.io/v1).
type KubernetesRequest struct {
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string
	// Group, Version, Resource and Subresource of the object: "apps", "v1", "deployments", "scale".
	Group, Version, Resource, Subresource string
	// Kind of the object: "Deployment".
	Kind string
	// Namespace and Name of the object; a namespace of none, a name that is yet to be made, are empty. The Domain of the
	// Request is the Namespace.
	Namespace, Name string
	// User who writes, the Groups that they are of, and what else their authenticator tells.
	User   string
	Groups []string
	Extra  map[string][]string
	// DryRun writes nothing.
	DryRun bool
	// Object as it is to be, OldObject as it is, and Options of the request: JSON, each nil for none. They are decoded for
	// expressions only.
	Object, OldObject, Options []byte
}

// KubernetesMatch selects writes to the Kubernetes API: every part that is present must match; within a list any element
// suffices.
type KubernetesMatch struct {
	Resources         []KubernetesResources `json:"resources"`
	Namespaces        []string              `json:"namespaces,omitempty"`
	NamespaceSelector Selector              `json:"namespaceSelector,omitempty"`
	Users             []string              `json:"users,omitempty"`
	Groups            []string              `json:"groups,omitempty"`
	ExceptUsers       []string              `json:"exceptUsers,omitempty"`
	ExceptGroups      []string              `json:"exceptGroups,omitempty"`
}

// KubernetesResources are resources ("pods", "deployments/scale", "*") of groups ("", "apps", "*"), and what is done with them.
type KubernetesResources struct {
	APIGroups  []string `json:"groups"`
	Resources  []string `json:"resources"`
	Operations []string `json:"operations"`
}

// Selector selects namespaces by their labels: every requirement must hold. An empty one selects all, also namespaces
// that are not known.
type Selector []Requirement

// Requirement is about one label.
type Requirement struct {
	Key      string           `json:"key"`
	Operator SelectorOperator `json:"operator"`
	Values   []string         `json:"values,omitempty"`
}

// SelectorOperator is how a label is compared.
type SelectorOperator string

// The patterns to compare a label.
const (
	SelectorIn           SelectorOperator = "In"
	SelectorNotIn        SelectorOperator = "NotIn"
	SelectorExists       SelectorOperator = "Exists"
	SelectorDoesNotExist SelectorOperator = "DoesNotExist"
)

// Namespace is what rules may ask of a namespace.
type Namespace struct {
	Name string `json:"name"`
	// Labels that some rule asks for, and no others.
	Labels map[string]string `json:"labels,omitempty"`
	// Tenant of the namespace, where it is not its name.
	Tenant string `json:"tenant,omitempty"`
}
