// Package grpcclients tests the gRPC port with clients that are not Go: grpcio, hyper-h2, Node.js, curl, nghttp and h2load. Each calls RLS,
// ext_authz and the health service with unusual settings, over both transports. make test-gateways runs it.
package grpcclients
