// Package policyapi has the specs of policies, and what Weir reads of their metadata, without the libraries of Kubernetes: programs that decide in
// process compile them too. Package v1alpha1 has the same types under the same names, and the objects of the Kubernetes API.
//
// +kubebuilder:object:generate=true
package policyapi
