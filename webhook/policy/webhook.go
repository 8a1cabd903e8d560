package policy

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/internal/compile"
)

// Where the API server asks about each kind.
const (
	PathRateLimitPolicies        = "/validate/ratelimitpolicies"
	PathClusterRateLimitPolicies = "/validate/clusterratelimitpolicies"
)

// Config is what the webhook judges with.
type Config struct {
	// Scheme knows the policy API.
	Scheme *runtime.Scheme
	// Stored lists the policies that are stored, of both kinds, from a cache.
	Stored Lister
	// Identity is the Limiter's identity table.
	Identity compile.Identity
}

// Lister lists what is stored.
type Lister interface {
	List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error
}

// mux is what of a webhook server is needed.
type mux interface {
	Register(path string, hook http.Handler)
}

// Register makes server answer about every kind of policy.
func Register(server mux, config Config) {
	server.Register(PathRateLimitPolicies, alone{admission.WithValidator(config.Scheme, rateLimitPolicies(config))})
	server.Register(PathClusterRateLimitPolicies, alone{admission.WithValidator(config.Scheme, clusterRateLimitPolicies(config))})
}

// alone answers every call on a connection of its own. Policies are written seldom; and an API server that calls on a kept
// connection just when an operator ends and closes it takes the policy unjudged.
type alone struct{ *admission.Webhook }

// ServeHTTP implements http.Handler.
func (a alone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	a.Webhook.ServeHTTP(w, r)
}
