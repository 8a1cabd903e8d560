// Package rlsload sends requests to a server of Envoy's RateLimitService and measures the answers. It writes HTTP/2 frames itself,
// because the client of grpc-go takes as much CPU time as the server that it measures.
package rlsload
