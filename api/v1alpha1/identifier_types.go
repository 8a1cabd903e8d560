package v1alpha1

// Identifier is the part of a request that holds the identifier. Exactly one field must be set.
// +kubebuilder:validation:ExactlyOneOf=header;query;cookie;claim;descriptor;expression
type Identifier struct {
	// header is the name of a request header. The name is case-insensitive. For example: X-Tenant-ID. Values that can be credentials
	// are hashed like API keys, whatever field they come from: those of names such as Authorization and api_key, all cookies, and the
	// results of expressions that read one of these.
	// +optional
	Header *HeaderName `json:"header,omitempty"`
	// query is the name of a query parameter. If the request has several different values, the identifier cannot be read.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Query *string `json:"query,omitempty"`
	// cookie is the name of a cookie. Its value is hashed like an API key.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&*+.^_|~-]+$')",message="a cookie name must be one or more letters, digits or characters of !#$%&*+-.^_|~"
	Cookie *string `json:"cookie,omitempty"`
	// claim is the name of a claim in the caller's token, for example sub. Use dots for a nested claim, for example realm.tenant.
	// Weir does not verify tokens: the proxy that sends the claims must have verified them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Claim *string `json:"claim,omitempty"`
	// descriptor is the key of an entry in an Envoy descriptor. The value of the entry is the identifier.
	// +optional
	Descriptor *DescriptorKey `json:"descriptor,omitempty"`
	// expression is a CEL expression over request that evaluates to a string. For example:
	// request.headers["x-user-id"] + "/" + request.headers["x-device"].
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// HeaderName is the name of an HTTP header.
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&*+.^_|~-]+$')",message="a header name must be one or more letters, digits or characters of !#$%&*+-.^_|~"
type HeaderName string

// DescriptorKey is the key of an entry in an Envoy descriptor.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type DescriptorKey string

// Expression is a CEL expression over the variable request, which has the fields domain, method, host, path, query, headers, clientIP,
// claims and descriptors. With match.kubernetes, request is the AdmissionRequest.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type Expression string
