package v1alpha1

// Denial is the response to a request that the policy denies. At least one field must be set.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.contentType) || has(self.message)",fieldPath=".contentType",message="contentType is valid only with message, because it describes the message; set message or remove contentType"
type Denial struct {
	// status is the HTTP status code: 402, 403, 404, 429 or 503. Envoy's rate limit filter sends the status of its own configuration
	// instead. Defaults to 429.
	// +optional
	// +kubebuilder:validation:Enum=402;403;404;429;503
	Status int32 `json:"status,omitempty"`
	// message is the body of the response. It is sent as it is. For writes to the Kubernetes API, it is a part of the message of the
	// error. If omitted, the body is a problem document (RFC 9457, application/problem+json).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^[:cntrl:]]|[[:space:]])*$')",message="message must not contain control characters except tabs and line breaks"
	Message string `json:"message,omitempty"`
	// contentType is the media type of the message. For example: application/json. Defaults to text/plain; charset=utf-8.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(; ?[A-Za-z0-9-]+=[A-Za-z0-9!#$&^_.+-]+)*$')",message="contentType must be a media type such as application/json or text/html; charset=utf-8"
	ContentType string `json:"contentType,omitempty"`
	// headers are further headers of the response. Names are case-insensitive and unique.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.name.lowerAscii() == b.name.lowerAscii()))",message="headers must have unique names; remove the repeated one"
	Headers []DenialHeader `json:"headers,omitempty"`
}

// DenialHeader is a header of a response.
type DenialHeader struct {
	// name is the name of the header. Headers that Weir or the proxy sets are invalid, for example Retry-After, Content-Length, Set-Cookie
	// and those that begin with RateLimit.
	// +required
	Name DenialHeaderName `json:"name"`
	// value is the value of the header: printable ASCII, without spaces at the ends.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]([ -~]*[!-~])?$')",message="the value of a header must be printable ASCII characters, without spaces at the ends"
	Value string `json:"value"`
}

// DenialHeaderName is the name of a header that the response to a denied request can have.
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&*+.^_|~-]+$')",message="a header name must be one or more letters, digits or characters of !#$%&*+-.^_|~"
// +kubebuilder:validation:XValidation:rule="!self.matches('(?i)^(clear-site-data|connection|content-(encoding|length|range|type)|date|grpc-.*|host|keep-alive|proxy-.*|(x-)?rate-?limit.*|retry-after|server|set-cookie2?|strict-transport-security|te|trailer|transfer-encoding|upgrade|x-envoy-.*)$')",message="this header must not be set, because Weir or the proxy sets it, or it affects more than this response; use another header, or contentType for Content-Type"
type DenialHeaderName string
