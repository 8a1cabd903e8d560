package policyapi

// Identifier sets where requests carry the identifier, and what happens to requests without one.
// +kubebuilder:validation:MinProperties=1
type Identifier struct {
	// The source of the identifier. If omitted, it is the one that spec.identity of the Limiter sets for the axis. It is required with axis
	// Custom.
	IdentifierSource `json:",inline"`
	// fallbacks lists the sources that are read if the request has no identifier that can be read, in this order. An identifier from one of
	// them has a counter of its own, with the source in front of it, such as query:key:acme. It never shares the counter of the same text from
	// another source. It is invalid with match.kubernetes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:XValidation:rule="self.all(s, has(s.header) || has(s.query) || has(s.cookie) || has(s.claim) || has(s.descriptor) || has(s.expression))",message="each fallback must have a source: header, query, cookie, claim, descriptor or expression"
	Fallbacks []IdentifierSource `json:"fallbacks,omitempty"`
	// onMissing decides what happens to a request without an identifier from any source. ClientAddress: it is counted by its client address,
	// such as address:203.0.113.7, and as with Shared if the address is unknown. Shared: all such requests share one counter, under the
	// identifier "-". Skip: the policy does not apply to it. Deny: it is denied. Requests whose identifier cannot be read are not skipped:
	// with Shared and Skip they share one counter, under the identifier "?". Defaults to ClientAddress, and to Shared with match.kubernetes or
	// if match.descriptors has the key of the identifier.
	// +optional
	OnMissing OnMissing `json:"onMissing,omitempty"`
}

// OnMissing decides what happens to a request without an identifier.
// +kubebuilder:validation:Enum=ClientAddress;Shared;Skip;Deny
type OnMissing string

const (
	// OnMissingClientAddress counts the request by its client address.
	OnMissingClientAddress OnMissing = "ClientAddress"
	// OnMissingShared counts all requests without an identifier in one counter.
	OnMissingShared OnMissing = "Shared"
	// OnMissingSkip does not apply the policy to the request.
	OnMissingSkip OnMissing = "Skip"
	// OnMissingDeny denies the request.
	OnMissingDeny OnMissing = "Deny"
)

// IdentifierSource is the part of a request that holds the identifier. At most one field can be set.
// +kubebuilder:validation:AtMostOneOf=header;query;cookie;claim;descriptor;expression
type IdentifierSource struct {
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
