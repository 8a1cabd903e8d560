// Package kubernetes throttles a real Kubernetes API: two kube-apiservers on one etcd, the operator, and limiters on one Redis. Each is a
// process of its own.
//
// The operator registers the webhook as in a cluster, and the tests do not change the registration: API servers call the Service by its
// name over TLS, and trust the CA bundle in the registration. Only nodes are missing. A [World] replaces them: it runs the limiters of the
// Limiter's Deployment, routes connections from the address of the Service to them, and sets their status to ready.
package kubernetes
