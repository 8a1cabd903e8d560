//go:build gateways

package gateways_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Clients retry UNAVAILABLE, which Envoy derives from 429 by default.
func TestEnvoy_DeniesGRPCCallsAsResourceExhausted(t *testing.T) {
	const policies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: rls, namespace: shop}
spec: {axis: Tenant, limit: 1, window: 1h, identifier: {descriptor: tenant}, match: {descriptors: [{key: tenant}]}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: auth, namespace: shop}
spec: {axis: Tenant, limit: 1, window: 1h, identifier: {header: x-user}, match: {http: {headers: [{name: x-user, type: Present}]}}}
`
	w := newWorld(t, policies, func(t *testing.T, p places) string {
		t.Helper()
		p.upstream = healthServer(t)
		return replace(t, documentedConfig(t, p), "\n  - name: shop\n", `
  - name: shop
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`)
	})
	conn, err := grpc.NewClient(w.front, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // all calls have ended
	client := grpc_health_v1.NewHealthClient(conn)
	for name, header := range map[string]string{"RLS": "x-tenant-id", "ext_authz": "x-user"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(grpcmetadata.AppendToOutgoingContext(t.Context(), header, "acme"), patience)
			defer cancel()
			var fields grpcmetadata.MD
			for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
				_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Trailer(&fields)) // a response without messages has only trailers
				if got := status.Code(err); got != want {
					t.Fatalf("%v, want %v", err, want)
				}
			}
			if len(fields.Get("retry-after")) != 1 || len(fields.Get("ratelimit")) != 1 {
				t.Errorf("%v", fields)
			}
		})
	}
}

// healthServer starts a gRPC server and returns its address.
func healthServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ConnectionTimeout(10 * time.Second))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends with Stop
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return listener.Addr().String()
}
