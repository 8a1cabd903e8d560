// Package crd holds the CustomResourceDefinitions that controller-gen makes from package v1alpha1.
package crd

import _ "embed" // for the definitions

//go:embed bases/weir.dev_ratelimitpolicies.yaml
var rateLimitPolicies string

// RateLimitPolicies returns the definition of RateLimitPolicy in YAML.
func RateLimitPolicies() string { return rateLimitPolicies }
