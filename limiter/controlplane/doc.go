// Package controlplane is what the operator and the replicas of a limiter exchange through Redis: the operator publishes
// rule sets, the replicas load them and send heartbeats. See [Exchange]. Each Lua script is embedded in the Go file that
// passes its keys and arguments and decodes its reply.
package controlplane
