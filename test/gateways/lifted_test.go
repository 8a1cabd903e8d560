//go:build gateways

package gateways_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Envoy passes the request of a call that fails. So nothing that a client sends, and no setting of Envoy's own HTTP/2, may make a call fail.
func TestEnvoy_AClientCannotLiftTheLimitsOfItsRequest(t *testing.T) {
	const policies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tenants, namespace: shop}
spec: {axis: Tenant, limit: 2, window: 1h, algorithm: FixedWindow, identifier: {descriptor: tenant}, match: {descriptors: [{key: tenant}]}}
`
	const keepalive = "connection_keepalive: {interval: 30s, timeout: 5s}"
	const tenant = "- request_headers: {header_name: x-tenant-id, descriptor_key: tenant}"
	for _, transport := range []string{"fast", "standard"} {
		for _, settings := range []string{"", "hpack_table_size: 0", "hpack_table_size: 1024", "hpack_table_size: 65536", "initial_stream_window_size: 65535"} {
			w := newWorld(t, policies, func(t *testing.T, p places) string {
				t.Helper()
				config := documentedConfig(t, p)
				if settings != "" {
					config = replace(t, config, keepalive, keepalive+", "+settings)
				}
				config = replace(t, config, "          use_remote_address: true\n", `          use_remote_address: true
          tracing:
            provider:
              name: envoy.tracers.opentelemetry
              typed_config:
                "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
                grpc_service: {envoy_grpc: {cluster_name: shop}}
                service_name: front
`)
				return replace(t, config, tenant, tenant+`
                  - actions:
                    - request_headers: {header_name: x-absent, descriptor_key: absent, skip_if_absent: true}`)
			}, "--grpc-transport", transport)
			for name, header := range map[string]http.Header{
				"plain":         {"X-Tenant-Id": {"acme"}},
				"not UTF-8":     {"X-Tenant-Id": {"caf\xe9"}},
				"a tracestate":  {"X-Tenant-Id": {"traced"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Tracestate": {"a=" + strings.Repeat("x", 33_000)}},
				"a long tenant": {"X-Tenant-Id": {strings.Repeat("x", 50_000)}},
			} {
				t.Run(fmt.Sprint(transport, "/", settings, "/", name), func(t *testing.T) {
					for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
						request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.front+"/", nil)
						if err != nil {
							t.Fatal(err)
						}
						request.Header = header
						if got := do(t, http.DefaultClient, request); got.status != want {
							t.Errorf("request %d: %d, want %d", i+1, got.status, want)
						}
					}
				})
			}
		}
	}
}
