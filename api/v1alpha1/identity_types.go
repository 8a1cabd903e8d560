package v1alpha1

// IdentityTable is where requests carry the identifiers of an axis, for policies that do not say it themselves.
type IdentityTable struct {
	// ip is what the address of a client is.
	// +optional
	// +kubebuilder:default={}
	IP IPIdentity `json:"ip,omitzero"`
	// tenant is where the tenant stands.
	// +optional
	// +kubebuilder:default={}
	Tenant TenantIdentity `json:"tenant,omitzero"`
	// user is where the user stands.
	// +optional
	// +kubebuilder:default={}
	User UserIdentity `json:"user,omitzero"`
	// apiKey is where the API key stands.
	// +optional
	// +kubebuilder:default={}
	APIKey APIKeyIdentity `json:"apiKey,omitzero"`
}

// IPIdentity is what the address of a client is.
type IPIdentity struct {
	// trustedProxies are the networks of the proxies whose X-Forwarded-For is believed: the client is the last address there
	// that is in none of them. Absent: nobody is believed, the client is whoever connects.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	TrustedProxies []CIDR `json:"trustedProxies,omitempty"`
	// ipv6PrefixLength is how many bits of an IPv6 address are counted as one client, who owns a /64 as a rule.
	// +optional
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	IPv6PrefixLength int32 `json:"ipv6PrefixLength,omitempty"`
}

// TenantIdentity is where the tenant stands.
// +kubebuilder:validation:XValidation:rule="!has(self.namespaceLabel) || !has(self.namespaceAnnotation)",message="a namespace has one tenant: give namespaceLabel or namespaceAnnotation, not both"
type TenantIdentity struct {
	// header names a request header; upper and lower case are the same.
	// +optional
	// +kubebuilder:default=X-Tenant-ID
	Header HeaderName `json:"header,omitempty"`
	// namespaceLabel names the label of a namespace that holds its tenant, for writes to the Kubernetes API. Without it, and
	// where a namespace has none, its tenant is its name.
	// +optional
	NamespaceLabel MetadataKey `json:"namespaceLabel,omitempty"`
	// namespaceAnnotation is the same for an annotation.
	// +optional
	NamespaceAnnotation MetadataKey `json:"namespaceAnnotation,omitempty"`
}

// UserIdentity is where the user stands.
type UserIdentity struct {
	// header names a request header; upper and lower case are the same.
	// +optional
	// +kubebuilder:default=X-User-ID
	Header HeaderName `json:"header,omitempty"`
}

// APIKeyIdentity is where the API key stands.
type APIKeyIdentity struct {
	// header names a request header; upper and lower case are the same.
	// +optional
	// +kubebuilder:default=X-API-Key
	Header HeaderName `json:"header,omitempty"`
}

// MetadataKey is the key of a label or an annotation.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')",message="the key of a label or annotation is a name such as tenant, or a DNS name and a name such as example.com/tenant"
type MetadataKey string
