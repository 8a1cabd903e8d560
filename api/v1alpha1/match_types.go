package v1alpha1

// Match is which requests are limited.
// +kubebuilder:validation:XValidation:rule="(has(self.http) ? 1 : 0) + (has(self.descriptors) ? 1 : 0) + (has(self.kubernetes) ? 1 : 0) == 1",message="match takes exactly one of http, descriptors and kubernetes; leave match out to limit every request of the domain"
type Match struct {
	// http matches HTTP and gRPC requests.
	// +optional
	HTTP *HTTPMatch `json:"http,omitempty"`
	// descriptors match the requests that Envoy sends a descriptor for with exactly these entries, in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Descriptors []DescriptorMatch `json:"descriptors,omitempty"`
	// kubernetes matches writes to the Kubernetes API, which no policy without it limits.
	// +optional
	Kubernetes *KubernetesMatch `json:"kubernetes,omitempty"`
}

// DescriptorMatch matches an entry of an Envoy descriptor.
type DescriptorMatch struct {
	// key of the entry.
	// +required
	Key DescriptorKey `json:"key"`
	// value of the entry. Absent: any.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Value *string `json:"value,omitempty"`
}

// HTTPMatch selects HTTP requests. Every part that is given must match; within hosts, paths, methods and cidrs any one
// suffices; headers must all match.
// +kubebuilder:validation:XValidation:rule="has(self.hosts) || has(self.paths) || has(self.methods) || has(self.headers) || has(self.cidrs) || has(self.exceptCIDRs) || has(self.expression)",message="http is empty: give hosts, paths, methods, headers, cidrs, exceptCIDRs or expression, or leave match out to limit every request of the domain"
type HTTPMatch struct {
	// hosts: "api.shop.example", or "*.shop.example" for every name below shop.example.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Hosts []Host `json:"hosts,omitempty"`
	// paths of the request, without the query; dot segments, double slashes and a slash at the end are resolved first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Paths []PathMatch `json:"paths,omitempty"`
	// methods in upper case.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	Methods []Method `json:"methods,omitempty"`
	// headers of the request, all of which must match.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderMatch `json:"headers,omitempty"`
	// cidrs are networks, in one of which the client's address must be.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	CIDRs []CIDR `json:"cidrs,omitempty"`
	// exceptCIDRs are networks, in none of which the client's address may be.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	ExceptCIDRs []CIDR `json:"exceptCIDRs,omitempty"`
	// expression is CEL over request that comes out as true for the requests that match.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// CIDR is a network: "203.0.113.0/24", or "2001:db8::/32".
// +kubebuilder:validation:MaxLength=49
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="a CIDR is an IPv4 or IPv6 network with its prefix length, such as 203.0.113.0/24 or 2001:db8::/32; for one address write /32 or /128"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="an address with bits after its prefix is no network; clear them (203.0.113.0/24, not 203.0.113.7/24), or write /32 or /128 for the one address"
type CIDR string

// Host is a host name, or "*." and a host name.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$')",message="a host is a DNS name in lower case without scheme, port and trailing dot, such as api.shop.example, or *.shop.example for every name below it; leave hosts out to match every host"
type Host string

// Method is an HTTP method.
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;OPTIONS;CONNECT;TRACE
type Method string

// PathMatch matches the path of a request.
// +kubebuilder:validation:XValidation:rule="self.type == 'RegularExpression' || self.value.matches('^/[^?#\\\\s]*$')",fieldPath=".value",message="a path begins with a slash and has no query, no fragment and no spaces"
// +kubebuilder:validation:XValidation:rule="self.type == 'RegularExpression' || !self.value.matches('//|/[.][.]?(/|$)')",fieldPath=".value",message="a path has no double slashes and no dot segments: they are resolved in a request before it is compared"
// +kubebuilder:validation:XValidation:rule="self.type == 'RegularExpression' || !self.value.matches('[*{}]')",fieldPath=".value",message="a path is compared as it stands, without wildcards (*) and templates ({id}): use PathPrefix for everything below a path, or RegularExpression"
type PathMatch struct {
	// type of the comparison: Exact, PathPrefix (whole segments) or RegularExpression (RE2, the whole path).
	// +optional
	// +kubebuilder:default=PathPrefix
	Type PathMatchType `json:"type,omitempty"`
	// value to compare with.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Value string `json:"value"`
}

// PathMatchType is how a path is compared.
// +kubebuilder:validation:Enum=Exact;PathPrefix;RegularExpression
type PathMatchType string

// The ways to compare a path.
const (
	PathExact             PathMatchType = "Exact"
	PathPrefix            PathMatchType = "PathPrefix"
	PathRegularExpression PathMatchType = "RegularExpression"
)

// HeaderMatch matches one header of a request.
// +kubebuilder:validation:XValidation:rule="self.type == 'Present' ? !has(self.value) : has(self.value)",fieldPath=".value",message="Exact and RegularExpression need a value, Present takes none"
type HeaderMatch struct {
	// name of the header; upper and lower case are the same.
	// +required
	Name HeaderName `json:"name"`
	// type of the comparison: Exact, Present or RegularExpression (RE2, the whole value).
	// +optional
	// +kubebuilder:default=Exact
	Type HeaderMatchType `json:"type,omitempty"`
	// value to compare with.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Value *string `json:"value,omitempty"`
	// invert selects the requests that do not match.
	// +optional
	Invert bool `json:"invert,omitempty"`
}

// HeaderMatchType is how a header is compared.
// +kubebuilder:validation:Enum=Exact;Present;RegularExpression
type HeaderMatchType string

// The ways to compare a header.
const (
	HeaderExact             HeaderMatchType = "Exact"
	HeaderPresent           HeaderMatchType = "Present"
	HeaderRegularExpression HeaderMatchType = "RegularExpression"
)
