package v1alpha1

// Identifier is where the identifier stands in a request.
// +kubebuilder:validation:ExactlyOneOf=header;query;cookie;claim;descriptor;expression
type Identifier struct {
	// header names a request header; upper and lower case are the same.
	// +optional
	Header *HeaderName `json:"header,omitempty"`
	// query names a query parameter.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Query *string `json:"query,omitempty"`
	// cookie names a cookie.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&*+.^_|~-]+$')",message="a cookie name is one or more letters, digits and !#$%&*+-.^_|~"
	Cookie *string `json:"cookie,omitempty"`
	// claim names a claim of the caller's token, "sub", or one within another, "realm.tenant". Weir verifies no token: the
	// proxy that sends the claims vouches for them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Claim *string `json:"claim,omitempty"`
	// descriptor is the key of an entry in an Envoy descriptor; the identifier is the value beside it.
	// +optional
	Descriptor *DescriptorKey `json:"descriptor,omitempty"`
	// expression is CEL over request that comes out as a string.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// HeaderName is the name of an HTTP header.
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&*+.^_|~-]+$')",message="a header name is one or more letters, digits and !#$%&*+-.^_|~"
type HeaderName string

// DescriptorKey is the key of an entry in an Envoy descriptor.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type DescriptorKey string

// Expression is a CEL expression over request, which has domain, method, host, path, query, headers, clientIP, claims and
// descriptors.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type Expression string
