// Package v1alpha1 is the API of Weir, group weir.dev.
//
// A [RateLimitPolicy] limits requests: the axis selects which requests are counted together, and each identifier on the axis can spend
// limit units per window. It applies to the requests of one domain, which is its own namespace. A [ClusterRateLimitPolicy] applies to
// all domains or to a list of domains. A [Limiter] is a deployment of limiter pods that enforces policies.
//
// The package has types and markers only. A rule that needs only the object itself is a schema bound or a CEL rule here, and the API
// server rejects an invalid object with the field and the reason. A rule that needs more than the object, such as a regular expression
// that must compile, or other policies, belongs to the compiler. The compiler reports in status, through the conditions in this package.
//
// Defaults are in the schema only. No controller changes a spec that a user wrote: the canonical form is in status.effective. Package
// applyconfiguration is generated. Controllers use it to write status with server-side apply.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=weir.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "weir.dev", Version: "v1alpha1"}

// SchemeGroupVersion is GroupVersion under the name that generated code expects.
var SchemeGroupVersion = GroupVersion

// AddToScheme registers the types of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&RateLimitPolicy{}, &RateLimitPolicyList{}, &ClusterRateLimitPolicy{}, &ClusterRateLimitPolicyList{}, &Limiter{}, &LimiterList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
