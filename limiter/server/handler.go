package server

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server/address"
	"github.com/weir-dev/weir/limiter/tracing"
)

// defaultMaxDelay must be shorter than socket.StopTimeout, the time that a drain waits for requests in flight.
const defaultMaxDelay = 5 * time.Second

// Metrics has the metrics of the endpoints of a limiter.
type Metrics struct {
	seconds  *prometheus.HistogramVec
	requests *prometheus.CounterVec
	shed     *prometheus.CounterVec
	failed   *prometheus.CounterVec
	defects  *prometheus.CounterVec
}

// NewMetrics registers the metrics of the endpoints.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "weir_decision_duration_seconds",
		Help:    "Time from the start of a request to its decision, in seconds, by endpoint: check, auth, rls, ext_authz or throttle.",
		Buckets: []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1},
		// In addition to the classic buckets, for Prometheus servers that scrape native histograms.
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"endpoint"}), shed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_shed_total",
		Help: "Requests that got no decision because the process was overloaded, by endpoint: check, auth, rls, ext_authz or throttle. " +
			"They were not counted.",
	}, []string{"endpoint"}), requests: newRequestsVec(), failed: newFailuresVec(), defects: newDefectsVec()}
	registry.MustRegister(m.seconds, m.requests, m.shed, m.failed, m.defects)
	return m
}

// Shed returns the counter of the requests of one endpoint that were shed.
func (m *Metrics) Shed(name string) prometheus.Counter { return m.shed.WithLabelValues(name) }

// Endpoint returns the observer for the decisions of one endpoint.
func (m *Metrics) Endpoint(name string) prometheus.Observer { return m.seconds.WithLabelValues(name) }

// Options of the endpoints. Engine, Style, Metrics and Log are required.
type Options struct {
	Engine *engine.Engine
	// Style selects the rate-limit headers of responses.
	Style   reply.Style
	Metrics *Metrics
	Log     *slog.Logger
	// Gate rejects requests while the process is overloaded. Nil admits all requests.
	Gate *overload.Gate
	// Tracer traces sampled requests. Nil traces nothing.
	Tracer *tracing.Tracer
	// Clients finds the client address of a request to /v1/auth. Nil trusts only the direct caller: the client is the last
	// address in X-Forwarded-For.
	Clients *address.Trusted
	// ClaimsHeader is the header in which a proxy sends the claims of a verified token to /v1/auth. Empty disables it.
	ClaimsHeader string
	// MaxDelay is the longest time that /v1/auth delays a request under a LeakyBucket limit. A request with a longer delay is
	// denied and not counted. 0 means 5 s. The longest bound is 30 minutes.
	MaxDelay time.Duration
}

// NewHandler returns the handler for POST /v1/check, and for /v1/auth/{domain} with any method. It rejects all other requests
// with application/problem+json.
func NewHandler(o Options) http.Handler {
	check := &checkEndpoint{
		engine: o.Engine, style: o.Style, log: o.Log, seconds: o.Metrics.Endpoint("check"), gate: o.Gate.Endpoint(o.Metrics.Shed("check")),
		failures: o.Metrics.Failures("check"), requests: o.Metrics.HTTPRequests("check"), tracer: o.Tracer,
	}
	auth := newAuthEndpoint(o)
	// Not a ServeMux: it redirects //v1/check, and callers do not follow a redirect with a body.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/check" {
			check.ServeHTTP(w, r)
			return
		}
		if domain, ok := strings.CutPrefix(r.URL.Path, "/v1/auth/"); ok && domain != "" && !strings.Contains(domain, "/") {
			auth.serveDomain(w, r, domain)
			return
		}
		reply.NewProblem(http.StatusNotFound, "", "path "+clip(r.URL.Path)+" does not exist; use POST /v1/check or /v1/auth/{domain}").Write(w)
	})
}

// reject writes a problem, and returns its status.
func reject(w http.ResponseWriter, p *reply.Problem) (status int) {
	p.Write(w)
	return p.Status
}

// rejectOverloaded writes the response to a request that a gate has rejected, and returns its status.
func rejectOverloaded(w http.ResponseWriter) (status int) {
	return reject(w, reply.Unavailable(limiter.ErrOverloaded))
}
