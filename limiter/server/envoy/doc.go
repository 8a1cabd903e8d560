// Package envoy has the gRPC endpoints of a limiter: the rate limit service (RLS v3) and external authorization (ext_authz v3) of
// Envoy, health and reflection.
//
// It turns messages of Envoy into engine.Checks and engine.Answers into messages. The engine makes every decision.
package envoy
