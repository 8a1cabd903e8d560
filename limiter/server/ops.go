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

// Rules are where the rules of a limiter come from.
type Rules interface {
	// Ready says why there are none yet.
	Ready() error
	// Origin says where those in force are from: "redis", "directory policies/".
	Origin() string
}

// Readiness says whether a limiter should be sent requests: it has rules and is not about to stop.
type Readiness struct {
	engine   *engine.Engine
	rules    Rules // nil for rules that are just there
	draining atomic.Bool
}

// NewReadiness returns the readiness of a limiter around e, whose rules come from there.
func NewReadiness(e *engine.Engine, rules Rules) *Readiness {
	return &Readiness{engine: e, rules: rules}
}

// Revision returns the revision in force, or why the limiter is not ready.
func (r *Readiness) Revision() (string, error) {
	if r.draining.Load() {
		return "", errors.New("draining: the limiter is about to stop")
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

// origin reads " from redis"; it is empty where nobody knows.
func (r *Readiness) origin() string {
	if r.rules == nil {
		return ""
	}
	if from := r.rules.Origin(); from != "" {
		return " from " + from
	}
	return ""
}

func (r *Readiness) drain() { r.draining.Store(true) }

// NewOpsHandler returns what a limiter serves to those who run it: /metrics, /healthz (the process serves) and /readyz
// (200 with the revision in force and where it is from, or 503 with the reason).
func NewOpsHandler(metrics prometheus.Gatherer, readiness *Readiness) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
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
