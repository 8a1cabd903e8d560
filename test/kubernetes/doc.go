// Package kubernetes throttles a real Kubernetes API: two kube-apiservers on one etcd, the operator, and limiters on one Redis, each
// a process of its own.
//
// The operator registers the webhook as it does in a cluster, and API servers are left with what it wrote: they ask the Service
// by its name over TLS, and trust the bundle that stands in the registration. Only the nodes are missing. A [World] plays them:
// it runs the limiters that the Limiter's Deployment describes, carries connections from the Service's address to them, and says
// that they are ready.
package kubernetes
