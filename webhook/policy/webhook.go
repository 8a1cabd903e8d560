package policy

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/internal/compile"
)

// The paths of the webhook for each kind.
const (
	PathRateLimitPolicies        = "/validate/ratelimitpolicies"
	PathClusterRateLimitPolicies = "/validate/clusterratelimitpolicies"
)

// Config has the dependencies of the webhook.
type Config struct {
	// Scheme must contain the types of v1alpha1.
	Scheme *runtime.Scheme
	// Cache has the stored objects.
	Cache Cache
	// Identity is the identity table for policies without an identifier.
	Identity compile.Identity
}

// mux is the part of a webhook server that Register needs.
type mux interface {
	Register(path string, hook http.Handler)
}

// Register registers the webhooks for both kinds of policies.
func Register(server mux, config Config) {
	index := newIndex(config.Cache, config.Identity)
	server.Register(PathRateLimitPolicies, closing{admission.WithValidator(config.Scheme, rateLimitPolicies(index))})
	server.Register(PathClusterRateLimitPolicies, closing{admission.WithValidator(config.Scheme, clusterRateLimitPolicies(index))})
}

// closing closes the connection after each call. Policies are written rarely. If the API server reused a connection while the operator
// terminates, the call could fail and the policy would be stored without validation.
type closing struct{ *admission.Webhook }

// ServeHTTP implements http.Handler.
func (c closing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	c.Webhook.ServeHTTP(w, r)
}
