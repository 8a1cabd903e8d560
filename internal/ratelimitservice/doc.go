// Package ratelimitservice has what a limiter needs to stand in for the rate limit service of the Envoy project
// (github.com/envoyproxy/ratelimit) in Envoy Gateway: [Settings] from its environment, and [Domains], the rules for its configuration.
//
// The rules come from the policies that `weir import envoy-ratelimit` writes for the same configuration. It makes no I/O.
package ratelimitservice
