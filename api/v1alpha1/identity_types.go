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
