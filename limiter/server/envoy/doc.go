// Package envoy is a limiter's gRPC endpoint: Envoy's rate limit service (RLS v3), Envoy's external authorization
// (ext_authz v3), health and reflection.
//
// It turns Envoy's messages into engine.Checks and engine.Answers into Envoy's messages, and decides nothing itself.
package envoy
