package server

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-dev/weir/limiter/engine"
)

// RuleSource is the source of the rules of a limiter.
type RuleSource interface {
	// Ready returns nil if there are rules, and the reason otherwise.
	Ready() error
	// Origin returns where the active rules come from: "redis", "directory policies/".
	Origin() string
}

// Readiness reports whether a limiter can receive requests: it has rules and does not drain.
type Readiness struct {
	engine   *engine.Engine
	rules    RuleSource // nil if the rules are constant
	draining atomic.Bool
}

// NewReadiness returns the readiness of a limiter with engine e and rules from rules, which may be nil.
func NewReadiness(e *engine.Engine, rules RuleSource) *Readiness {
	return &Readiness{engine: e, rules: rules}
}

// Revision returns the active revision, or the reason why the limiter is not ready.
func (r *Readiness) Revision() (string, error) {
	if r.draining.Load() {
		return "", errors.New("draining: the limiter is shutting down")
	}
	if index := r.engine.Index(); index != nil {
		return index.Revision(), nil
	}
	if r.rules != nil {
		if err := r.rules.Ready(); err != nil {
			return "", err
		}
	}
	return "", errors.New("no rules yet")
}

// origin returns, for example, " from redis", or "" if the origin is unknown.
func (r *Readiness) origin() string {
	if r.rules == nil {
		return ""
	}
	if origin := r.rules.Origin(); origin != "" {
		return " from " + origin
	}
	return ""
}

func (r *Readiness) drain() { r.draining.Store(true) }

// OpsOption changes the handler for monitoring.
type OpsOption func(*promhttp.HandlerOpts)

// WithExemplars makes /metrics also use the format OpenMetrics, which has exemplars. In this format, the names of all counters end in _total.
func WithExemplars(o *promhttp.HandlerOpts) { o.EnableOpenMetrics = true }

// NewOpsHandler returns the handler for monitoring: /metrics, /healthz (200 while the process serves) and /readyz (200 with the
// active revision and its origin, or 503 with the reason).
func NewOpsHandler(metrics prometheus.Gatherer, readiness *Readiness, options ...OpsOption) http.Handler {
	var o promhttp.HandlerOpts
	for _, option := range options {
		option(&o)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, o))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		revision, err := readiness.Revision()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, "ok %s%s\n", revision, readiness.origin())
	})
	return mux
}
