package policyapi

import "time"

// ObjectMeta is what Weir reads of the metadata of a policy.
//
// +kubebuilder:object:generate=false
type ObjectMeta struct {
	Name      string            `json:"name,omitempty"`
	Namespace string            `json:"namespace,omitempty"` // empty for a ClusterRateLimitPolicy
	Labels    map[string]string `json:"labels,omitempty"`
	// CreationTimestamp is zero in a file.
	CreationTimestamp time.Time `json:"creationTimestamp,omitzero"`
	// DeletionTimestamp is nil unless the policy is being deleted.
	DeletionTimestamp *time.Time `json:"deletionTimestamp,omitempty"`
}

// RateLimitPolicy is a RateLimitPolicy without its status.
//
// +kubebuilder:object:generate=false
type RateLimitPolicy struct {
	ObjectMeta `json:"metadata"`

	Spec RateLimitPolicySpec `json:"spec"`
}

// ClusterRateLimitPolicy is a ClusterRateLimitPolicy without its status.
//
// +kubebuilder:object:generate=false
type ClusterRateLimitPolicy struct {
	ObjectMeta `json:"metadata"`

	Spec ClusterRateLimitPolicySpec `json:"spec"`
}
