package v1alpha1

// Consistency decides when the units of a request are counted in Redis.
// +kubebuilder:validation:Enum=Exact;Leased
type Consistency string

const (
	// ConsistencyExact counts every request in Redis before it is admitted.
	ConsistencyExact Consistency = "Exact"
	// ConsistencyLeased lets replicas spend units of busy counters in Redis ahead of the requests that they admit from memory.
	ConsistencyLeased Consistency = "Leased"
)

// Lease bounds the units that limiter replicas spend ahead of requests.
type Lease struct {
	// maxShare is the largest part of the limit that all replicas together hold in leases of one counter, from 1% to 50%. A replica of R
	// holds at most 1/R of it. Defaults to 10%.
	// +optional
	MaxShare Percentage `json:"maxShare,omitempty"`
	// maxAge is the longest time that a lease lasts, from 100ms to 10s, at most half of the window. Defaults to 1s, or to half of the
	// window if that is shorter.
	// +optional
	MaxAge LeaseAge `json:"maxAge,omitempty"`
}

// Percentage is a part of a limit, in whole percent. For example: 10%.
// +kubebuilder:validation:MaxLength=3
// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9]|[1-4][0-9]|50)%$')",message="maxShare must be a whole percentage from 1% to 50%"
type Percentage string

// LeaseAge is a duration in seconds or milliseconds, such as 1s or 250ms.
// +kubebuilder:validation:MaxLength=7
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,5}(ms|s)$') && duration(self) >= duration('100ms') && duration(self) <= duration('10s')",message="maxAge must be from 100ms to 10s, in whole seconds (1s) or milliseconds (250ms)"
type LeaseAge string
