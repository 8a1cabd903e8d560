// Package crd holds the CustomResourceDefinitions that controller-gen and hack/labelselectors make from package v1alpha1.
package crd

import _ "embed" // for the definitions

//go:embed bases/weir.dev_ratelimitpolicies.yaml
var rateLimitPolicies string

// RateLimitPolicies returns the definition of RateLimitPolicy in YAML.
func RateLimitPolicies() string { return rateLimitPolicies }

//go:embed bases/weir.dev_clusterratelimitpolicies.yaml
var clusterRateLimitPolicies string

// ClusterRateLimitPolicies returns the definition of ClusterRateLimitPolicy in YAML.
func ClusterRateLimitPolicies() string { return clusterRateLimitPolicies }

//go:embed bases/weir.dev_limiters.yaml
var limiters string

// Limiters returns the definition of Limiter in YAML.
func Limiters() string { return limiters }
