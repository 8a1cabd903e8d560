package policyapi

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
	// +kubebuilder:validation:XValidation:rule="self.matches('^([\\\\t-\\\\r]|[^\\\\p{Cc}\\\\x{061c}\\\\x{200e}\\\\x{200f}\\\\x{202a}-\\\\x{202e}\\\\x{2066}-\\\\x{2069}])*$')",message="message must not contain control characters except tabs and line breaks"
	Message string `json:"message,omitempty"`
	// contentType is the media type of the message: text/plain, application/json or application/…+json, optionally with ; charset=utf-8.
	// Defaults to text/plain; charset=utf-8.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(?i)(text/plain|application/([a-z0-9!#$&^_.-]+[+])?json)(; ?charset=utf-8)?$')",message="contentType must be text/plain, application/json or application/…+json, optionally with ; charset=utf-8"
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
	// name is the name of the header: Access-Control-Allow-Credentials, Access-Control-Allow-Origin, Access-Control-Expose-Headers,
	// Content-Language, Link, Vary, or one of your own that begins with X-. Those that Weir or a proxy sets or acts on are invalid, for example
	// X-RateLimit-Limit and X-Accel-Redirect.
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
// +kubebuilder:validation:XValidation:rule="self.matches('^(?i)(access-control-(allow-credentials|allow-origin|expose-headers)|content-language|link|vary|x-.+)$') && !self.matches('^(?i)x-(accel|archive|envoy|forwarded|lighttpd|litespeed|middleware|original|rate-?limit|reproxy|send-?file|weir)')",message="this header must not be set, because Weir or a proxy sets it or acts on it, or it affects more than this response; use a header of your own that begins with X-"
type DenialHeaderName string
