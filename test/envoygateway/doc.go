// Package envoygateway tests Weir in a real Envoy Gateway, in its standalone mode, with a real Envoy. Run it with make test-envoy-gateway.
package envoygateway
