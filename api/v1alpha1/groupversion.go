// Package v1alpha1 is the policy API, group weir.dev.
//
// A [RateLimitPolicy] says who may do how much of what: requests are counted together by axis, and every identifier on
// it may spend limit units per window. It speaks for the requests of one domain, its own namespace. A
// [ClusterRateLimitPolicy] does so for all domains or for some, and a [Limiter] is one deployment that enforces policies.
//
// Types and markers only. What an object can prove about itself is a schema bound or a CEL rule here, so that the API
// server refuses it with the field and the reason; everything that needs more than the object (a regular expression
// to compile, other policies) is the compiler's business, and is told in status by the conditions named here.
//
// Defaults stand in the schema and nowhere else, and nothing rewrites what a person wrote: the canonical form is in
// status.effective. Package applyconfiguration below is generated, for writing status by server-side apply.
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

// GroupVersion of the types in this package.
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
