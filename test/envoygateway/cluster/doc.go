// Package cluster tests Weir with Envoy Gateway on a real cluster, which docs/tutorials/envoy-gateway.md has set up. Run it with
// make e2e-envoy-gateway.
package cluster
