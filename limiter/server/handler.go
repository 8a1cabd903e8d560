package server

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server/address"
)

// defaultMaxDelay is shorter than a drain waits for requests under way, see socket.StopTimeout.
const defaultMaxDelay = 5 * time.Second

// Metrics of the endpoints of a limiter.
type Metrics struct {
	seconds *prometheus.HistogramVec
}

// NewMetrics registers the metrics of the endpoints.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "weir_decision_duration_seconds",
		Help:    "Time from the first byte of a request to the last byte of its decision, by the endpoint that received it.",
		Buckets: []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1},
	}, []string{"endpoint"})}
	registry.MustRegister(m.seconds)
	return m
}

// Endpoint is where the decisions at one endpoint are observed.
func (m *Metrics) Endpoint(name string) prometheus.Observer { return m.seconds.WithLabelValues(name) }

// Options of the endpoints. Engine, Style, Metrics and Log are required.
type Options struct {
	Engine *engine.Engine
	// Style is how clients are told of their limits.
	Style   reply.Style
	Metrics *Metrics
	Log     *slog.Logger
	// Clients finds the client's address of a request to /v1/auth. Nil: whoever asks is believed, and nobody behind, in
	// X-Forwarded-For.
	Clients *address.Trusted
	// ClaimsHeader is the header in which a proxy hands /v1/auth the claims of a token that it has verified. Empty: none.
	ClaimsHeader string
	// MaxDelay is for how long /v1/auth holds a request back until its turn under a LeakyBucket; what would have to wait
	// longer is denied. 0: 5 s.
	MaxDelay time.Duration
}

// NewHandler returns what a limiter serves to its callers: POST /v1/check, and /v1/auth/{domain} with any method. Everything
// it refuses it answers with application/problem+json.
func NewHandler(o Options) http.Handler {
	check := &checkEndpoint{engine: o.Engine, style: o.Style, log: o.Log, seconds: o.Metrics.Endpoint("check")}
	auth := newAuthEndpoint(o)
	// Not a ServeMux: that answers //v1/check with a redirect, which callers do not follow with a body.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/check" {
			check.ServeHTTP(w, r)
			return
		}
		if domain, is := strings.CutPrefix(r.URL.Path, "/v1/auth/"); is && domain != "" && !strings.Contains(domain, "/") {
			auth.serve(w, r, domain)
			return
		}
		reply.NewProblem(http.StatusNotFound, "", "there is no "+clip(r.URL.Path)+"; ask POST /v1/check or /v1/auth/{domain}").Write(w)
	})
}
