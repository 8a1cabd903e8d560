package v1alpha1

// Endpoints configures the endpoints of the pods: HTTP on port 8080 with the check and forward-auth, and gRPC on port 8081 with the Envoy
// rate limit service (RLS) and ext_authz.
type Endpoints struct {
	// http configures port 8080.
	// +optional
	HTTP HTTPEndpoint `json:"http,omitzero"`
	// forwardAuth configures forward-auth on port 8080.
	// +optional
	ForwardAuth ForwardAuthEndpoint `json:"forwardAuth,omitzero"`
	// grpc configures port 8081.
	// +optional
	GRPC GRPCEndpoint `json:"grpc,omitzero"`
	// drain is how long a pod keeps serving after SIGTERM while it reports not ready, until callers have noticed. 0s to 5m, in
	// whole seconds. Defaults to 5s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?([0-9]{1,5}ms)?$') && size(self) > 1 && duration(self) >= duration('0s') && duration(self) <= duration('5m') && duration(self).getMilliseconds() % 1000 == 0",message="drain must be from 0s to 5m, in whole seconds, for example 5s"
	Drain Duration `json:"drain,omitempty"`
}

// HTTPEndpoint configures port 8080.
type HTTPEndpoint struct {
	// tls enables TLS. If omitted, the port accepts connections without encryption.
	// +optional
	TLS *EndpointTLS `json:"tls,omitempty"`
	// proxyProtocolFrom lists the networks of the load balancers that use the PROXY protocol. Connections from these networks must begin
	// with its header, and other connections must not. If omitted, the protocol is not used. For example: 10.0.0.0/8.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ProxyProtocolFrom []CIDR `json:"proxyProtocolFrom,omitempty"`
}

// ForwardAuthEndpoint configures forward-auth on port 8080.
type ForwardAuthEndpoint struct {
	// claimsHeader is the name of the header in which the proxy sends the claims of a verified token, as JSON or base64. The proxy must set
	// or remove this header on every request. If omitted, requests have no claims. For example: X-JWT-Payload.
	// +optional
	ClaimsHeader HeaderName `json:"claimsHeader,omitempty"`
}

// GRPCEndpoint configures port 8081.
type GRPCEndpoint struct {
	// tls enables TLS. If omitted, the port accepts connections without encryption.
	// +optional
	TLS *EndpointTLS `json:"tls,omitempty"`
	// transport is what serves the port. Fast: HTTP/2 of Weir, which takes a fraction of the CPU. Standard: the server of grpc-go, for a client
	// with which Fast does not work. Defaults to Fast.
	// +optional
	Transport GRPCTransport `json:"transport,omitempty"`
	// defaultDomain is the domain of ext_authz requests without the context extension domain, which some gateways cannot set. If omitted,
	// only the ClusterRateLimitPolicies for all domains apply to such requests. For example: shop.
	// +optional
	DefaultDomain Domain `json:"defaultDomain,omitempty"`
	// refunds decides whether callers can refund units with is_negative_hits. If omitted, refunds are allowed with tls.clientNames, which
	// names the callers, and otherwise forbidden.
	// +optional
	Refunds Refunds `json:"refunds,omitempty"`
	// unitMultiplier reports windows such as 15 minutes to Envoy as a multiple of a unit. Envoy before 1.40 reads them as one unit. Defaults
	// to false.
	// +optional
	UnitMultiplier bool `json:"unitMultiplier,omitempty"`
	// errorResponse responds with error_response to ext_authz calls that cannot be decided. Envoy before 1.37 treats it as a denial. Defaults
	// to false.
	// +optional
	ErrorResponse bool `json:"errorResponse,omitempty"`
}

// GRPCTransport is what serves the gRPC port.
// +kubebuilder:validation:Enum=Fast;Standard
type GRPCTransport string

const (
	// GRPCTransportFast is HTTP/2 of Weir.
	GRPCTransportFast GRPCTransport = "Fast"
	// GRPCTransportStandard is the server of grpc-go.
	GRPCTransportStandard GRPCTransport = "Standard"
)

// EndpointTLS configures TLS for the callers of a port. The pods use renewed files without a restart.
// +kubebuilder:validation:XValidation:rule="!has(self.clientNames) || has(self.clientCASecretRef)",fieldPath=".clientNames",message="clientNames requires clientCASecretRef, because only a verified client certificate has a name; set clientCASecretRef or remove clientNames"
type EndpointTLS struct {
	// secretRef references a Secret with the certificate of the port (key tls.crt) and its private key (key tls.key).
	// +required
	SecretRef SecretReference `json:"secretRef"`
	// clientCASecretRef references a Secret with the CA certificates of callers (key ca.crt). Callers must present a certificate that one of
	// these CAs has signed. If omitted, callers need no certificate.
	// +optional
	ClientCASecretRef *SecretReference `json:"clientCASecretRef,omitempty"`
	// clientNames lists DNS names and URIs. The certificate of a caller must contain one of them as a subject alternative name. If omitted,
	// every certificate of the CAs is accepted. For example: spiffe://cluster.local/ns/gateways/sa/envoy.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ClientNames []ClientName `json:"clientNames,omitempty"`
}

// ClientName is a DNS name or a URI in the certificate of a caller.
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="a client name must be a DNS name or a URI without spaces, such as envoy.gateways.svc or spiffe://cluster.local/ns/gateways/sa/envoy"
type ClientName string

// Refunds decides whether callers can refund units.
// +kubebuilder:validation:Enum=Allowed;Forbidden
type Refunds string

const (
	// RefundsAllowed accepts refunds from every caller.
	RefundsAllowed Refunds = "Allowed"
	// RefundsForbidden rejects calls that contain a refund.
	RefundsForbidden Refunds = "Forbidden"
)

// LogLevel is the minimum level of log messages.
// +kubebuilder:validation:Enum=Debug;Info;Warn;Error
type LogLevel string

const (
	// LogLevelDebug logs all messages.
	LogLevelDebug LogLevel = "Debug"
	// LogLevelInfo logs changes of state, warnings and errors.
	LogLevelInfo LogLevel = "Info"
	// LogLevelWarn logs warnings and errors.
	LogLevelWarn LogLevel = "Warn"
	// LogLevelError logs errors.
	LogLevelError LogLevel = "Error"
)

// AddressHeader is the header in which proxies report the address of the client.
// +kubebuilder:validation:Enum=X-Forwarded-For;Forwarded
type AddressHeader string

const (
	// AddressHeaderXForwardedFor is X-Forwarded-For.
	AddressHeaderXForwardedFor AddressHeader = "X-Forwarded-For"
	// AddressHeaderForwarded is Forwarded (RFC 7239).
	AddressHeaderForwarded AddressHeader = "Forwarded"
)
