package policyapi

// Match selects the requests to limit. Exactly one field must be set.
// +kubebuilder:validation:XValidation:rule="(has(self.http) ? 1 : 0) + (has(self.descriptors) ? 1 : 0) + (has(self.kubernetes) ? 1 : 0) == 1",message="match must have exactly one of http, descriptors and kubernetes; omit match to limit every request of the domain"
type Match struct {
	// http selects HTTP and gRPC requests. It never selects the descriptors of Envoy's rate limit filter.
	// +optional
	HTTP *HTTPMatch `json:"http,omitempty"`
	// descriptors selects requests by an Envoy descriptor. A request matches if Envoy sends a descriptor with exactly these entries in
	// this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Descriptors []DescriptorMatch `json:"descriptors,omitempty"`
	// kubernetes selects writes to the Kubernetes API. A policy without this field limits no writes.
	// +optional
	Kubernetes *KubernetesMatch `json:"kubernetes,omitempty"`
}

// DescriptorMatch matches one entry of an Envoy descriptor. Without value and pattern, every value matches.
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.pattern) && !has(self.except)",fieldPath=".value",message="value must not be set together with pattern or except, because it already is one value; remove value or the others"
type DescriptorMatch struct {
	// key is the key of the entry.
	// +required
	Key DescriptorKey `json:"key"`
	// value is the value of the entry, literally.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Value *string `json:"value,omitempty"`
	// pattern matches the whole value of the entry. In a pattern, each * stands for any text, also the empty text. For example: /v1/*.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Pattern *string `json:"pattern,omitempty"`
	// except lists patterns, or values, that do not match. Use it to leave out the values that other policies limit.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Except []DescriptorPattern `json:"except,omitempty"`
}

// DescriptorPattern is a pattern for the value of an entry in an Envoy descriptor. Each * stands for any text, also the empty text.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=512
type DescriptorPattern string

// HTTPMatch selects HTTP requests. A request matches if it matches every field that is set. In hosts, paths, methods and cidrs, one
// matching entry is enough. All entries of headers must match.
// +kubebuilder:validation:XValidation:rule="has(self.hosts) || has(self.paths) || has(self.methods) || has(self.headers) || has(self.cidrs) || has(self.exceptCIDRs) || has(self.expression) || (has(self.ignoreCase) && self.ignoreCase)",message="http must not be empty: set hosts, paths, methods, headers, cidrs, exceptCIDRs or expression, or omit match to limit every request of the domain"
type HTTPMatch struct {
	// hosts lists the host names, in lower case and without a port. For example: api.shop.example, or *.shop.example for every name
	// below shop.example. If omitted, the host is not checked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Hosts []Host `json:"hosts,omitempty"`
	// paths lists the paths, without the query string. A request matches if any reading of its path matches: servers decode escapes
	// and resolve dot segments in different ways. If omitted, the path is not checked.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Paths []PathMatch `json:"paths,omitempty"`
	// ignoreCase compares paths without regard to case, and counts endpoints without it. Set it if the service ignores case, as Express
	// and ASP.NET do by default. Hosts and header names are never case-sensitive.
	// +optional
	IgnoreCase bool `json:"ignoreCase,omitempty"`
	// methods lists the HTTP methods, in upper case. GET includes HEAD, because services answer it with the same handler. If omitted, the
	// method is not checked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	Methods []Method `json:"methods,omitempty"`
	// headers lists the conditions on request headers. All of them must match.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderMatch `json:"headers,omitempty"`
	// cidrs lists networks. The client address must be in at least one of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	CIDRs []CIDR `json:"cidrs,omitempty"`
	// exceptCIDRs lists networks. A request whose client address is in one of them does not match.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ExceptCIDRs []CIDR `json:"exceptCIDRs,omitempty"`
	// expression is a CEL expression over request. The request matches if the expression evaluates to true. For example:
	// request.headers["x-plan"] == "free".
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// CIDR is an IPv4 or IPv6 network in CIDR notation, for example 203.0.113.0/24 or 2001:db8::/32.
// +kubebuilder:validation:MaxLength=49
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="a CIDR must be an IPv4 or IPv6 network with a prefix length, such as 203.0.113.0/24 or 2001:db8::/32; for a single address use /32 or /128"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="a CIDR must not have bits set after its prefix; clear them (203.0.113.0/24 instead of 203.0.113.7/24), or use /32 or /128 for a single address"
type CIDR string

// Host is a host name, or "*." followed by a host name.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$')",message="a host must be a DNS name in lower case without scheme, port and trailing dot, such as api.shop.example, or *.shop.example for every name below it; omit hosts to match every host"
type Host string

// Method is an HTTP method.
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;OPTIONS;CONNECT;TRACE
type Method string

// PathMatch matches the path of a request.
// +kubebuilder:validation:XValidation:rule="has(self.type) && self.type == 'RegularExpression' || self.value.matches('^/[^?#\\\\s]*$')",fieldPath=".value",message="a path must begin with a slash and must not have a query, a fragment or spaces"
// +kubebuilder:validation:XValidation:rule="has(self.type) && self.type == 'RegularExpression' || !self.value.matches('//|/[.][.]?(/|$)')",fieldPath=".value",message="a path must not have double slashes or dot segments, because Weir resolves them in the request before the comparison"
// +kubebuilder:validation:XValidation:rule="has(self.type) && self.type == 'RegularExpression' || !self.value.matches('[*{}]')",fieldPath=".value",message="a path must not have wildcards (*) or templates ({id}); use type PathPrefix to match everything below a path, or type RegularExpression"
type PathMatch struct {
	// type is the comparison. Exact matches the whole path. PathPrefix matches whole path segments at the beginning of the path.
	// RegularExpression is an RE2 expression that must match the whole path. Defaults to PathPrefix.
	// +optional
	Type PathMatchType `json:"type,omitempty"`
	// value is the path, the path prefix or the regular expression. For example: /v1/search.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Value string `json:"value"`
}

// PathMatchType is the comparison of a path.
// +kubebuilder:validation:Enum=Exact;PathPrefix;RegularExpression
type PathMatchType string

const (
	// PathExact matches the whole path.
	PathExact PathMatchType = "Exact"
	// PathPrefix matches whole path segments at the beginning of the path.
	PathPrefix PathMatchType = "PathPrefix"
	// PathRegularExpression matches the whole path with an RE2 expression.
	PathRegularExpression PathMatchType = "RegularExpression"
)

// HeaderMatch is a condition on one request header.
// +kubebuilder:validation:XValidation:rule="has(self.type) && self.type == 'Present' ? !has(self.value) : has(self.value)",fieldPath=".value",message="value is required with type Exact or RegularExpression, and must not be set with type Present"
type HeaderMatch struct {
	// name is the name of the header. The name is case-insensitive.
	// +required
	Name HeaderName `json:"name"`
	// type is the comparison. Exact compares the whole value. Present matches if the request has the header. RegularExpression is an
	// RE2 expression that must match the whole value. Defaults to Exact.
	// +optional
	Type HeaderMatchType `json:"type,omitempty"`
	// value is the header value or the regular expression. It is required unless type is Present.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Value *string `json:"value,omitempty"`
	// invert negates the condition: it selects the requests that do not match. Defaults to false.
	// +optional
	Invert bool `json:"invert,omitempty"`
}

// HeaderMatchType is the comparison of a header.
// +kubebuilder:validation:Enum=Exact;Present;RegularExpression
type HeaderMatchType string

const (
	// HeaderExact compares the whole value.
	HeaderExact HeaderMatchType = "Exact"
	// HeaderPresent matches if the request has the header.
	HeaderPresent HeaderMatchType = "Present"
	// HeaderRegularExpression matches the whole value with an RE2 expression.
	HeaderRegularExpression HeaderMatchType = "RegularExpression"
)
