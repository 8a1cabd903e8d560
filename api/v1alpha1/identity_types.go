package v1alpha1

// IdentityTable sets where requests carry the identifiers of each axis. It applies to policies without spec.identifier.
type IdentityTable struct {
	// ip sets how the client address of a request is determined and counted.
	// +optional
	IP IPIdentity `json:"ip,omitzero"`
	// tenant sets where requests carry the tenant.
	// +optional
	Tenant TenantIdentity `json:"tenant,omitzero"`
	// user sets where requests carry the user.
	// +optional
	User UserIdentity `json:"user,omitzero"`
	// apiKey sets where requests carry the API key.
	// +optional
	APIKey APIKeyIdentity `json:"apiKey,omitzero"`
	// credentials lists names of headers, query parameters, claims and descriptor entries that contain credentials, in addition to the
	// names that Weir recognizes, such as Authorization and api_key. Identifiers from them are hashed like API keys. For example: X-License.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Credentials []CredentialName `json:"credentials,omitempty"`
}

// CredentialName is the name of a header, a query parameter, a claim or a descriptor entry. It is case-insensitive.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type CredentialName string

// IPIdentity sets how the client address of a request is determined and counted.
type IPIdentity struct {
	// trustedProxies lists the networks of the proxies whose X-Forwarded-For header is trusted. The header is used only if the
	// connection comes from one of these networks. Then the client address is the last address in the header that is not in these
	// networks. If omitted, the client of an ext_authz call is the source address that Envoy reports, and every caller of the
	// forward-auth endpoint is trusted for one hop: the client address is the last address in X-Forwarded-For, or the address of the
	// connection if the request has no such header. Restrict access to the limiter, and configure proxies to set the header, so that
	// clients cannot choose their address. For example: 10.0.0.0/8.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	TrustedProxies []CIDR `json:"trustedProxies,omitempty"`
	// header is the header in which proxies report the address of the client: X-Forwarded-For or Forwarded. The other header is ignored.
	// Defaults to X-Forwarded-For.
	// +optional
	Header AddressHeader `json:"header,omitempty"`
	// ipv6PrefixLength is the number of leading bits of an IPv6 address that identify one client. Most clients own a whole /64.
	// Defaults to 64.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	IPv6PrefixLength int32 `json:"ipv6PrefixLength,omitempty"`
}

// TenantIdentity sets where requests carry the tenant.
// +kubebuilder:validation:XValidation:rule="!has(self.namespaceLabel) || !has(self.namespaceAnnotation)",message="namespaceLabel and namespaceAnnotation are mutually exclusive; remove one of them"
type TenantIdentity struct {
	// header is the name of the request header that holds the tenant. The name is case-insensitive. Defaults to X-Tenant-ID.
	// +optional
	Header HeaderName `json:"header,omitempty"`
	// namespaceLabel is the key of the namespace label that holds the tenant, for writes to the Kubernetes API. If omitted, or if a
	// namespace does not have the label, the tenant is the name of the namespace. For example: example.com/tenant.
	// +optional
	NamespaceLabel MetadataKey `json:"namespaceLabel,omitempty"`
	// namespaceAnnotation is the key of the namespace annotation that holds the tenant, for writes to the Kubernetes API. It works like
	// namespaceLabel; only one of the two can be set.
	// +optional
	NamespaceAnnotation MetadataKey `json:"namespaceAnnotation,omitempty"`
}

// UserIdentity sets where requests carry the user.
type UserIdentity struct {
	// header is the name of the request header that holds the user. The name is case-insensitive. Defaults to X-User-ID.
	// +optional
	Header HeaderName `json:"header,omitempty"`
}

// APIKeyIdentity sets where requests carry the API key.
type APIKeyIdentity struct {
	// header is the name of the request header that holds the API key. The name is case-insensitive. Defaults to X-API-Key.
	// +optional
	Header HeaderName `json:"header,omitempty"`
}

// MetadataKey is the key of a label or an annotation.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')",message="the key of a label or annotation must be a name such as tenant, or a DNS name, a slash and a name, such as example.com/tenant"
type MetadataKey string

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
