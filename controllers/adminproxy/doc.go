// Package adminproxy is the way to the admin endpoints of limiters: an HTTPS endpoint of the operator. Limiters have no Kubernetes
// credentials and cannot verify users. The operator authenticates the user, asks the API server whether the user is allowed, and forwards the
// request to all replicas of a Limiter over mutual TLS, with the name of the user.
package adminproxy
