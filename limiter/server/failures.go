package server

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
)

// Failures counts the requests of one endpoint that got no decision, without those that were shed.
type Failures struct {
	invalid, unavailable prometheus.Counter
	defects              *prometheus.CounterVec // by reason
}

func newFailuresVec() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_failed_requests_total",
		Help: "Requests that got no decision, without those in weir_shed_total, by endpoint: check, auth, rls, ext_authz or throttle. The reason is " +
			"invalid (HTTP 400 or 405, gRPC INVALID_ARGUMENT or PERMISSION_DENIED, INTERNAL for a message that cannot be decoded) or " +
			"unavailable (HTTP 503, gRPC UNAVAILABLE, or a write that passes or fails by its failure policy).",
	}, []string{"endpoint", "reason"})
}

func newDefectsVec() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_request_defects_total",
		Help: "Requests that were decided although a part of them cannot be used as it is, by endpoint: check, rls or ext_authz. The reason is not_utf8 " +
			"(a text that is counted by its bytes), empty_descriptor (no policy matches it), descriptors or entries (those over the bound are not decided), " +
			"empty_key, limit (the policy's own limit applies), refund (refunds are forbidden), metadata (claims over the bound are missing), " +
			"cost (the nearest valid cost applies), value (a header or parameter that is no text is missing) or size (the request is denied).",
	}, []string{"endpoint", "reason"})
}

// Failures returns the counters of one endpoint. They exist from the first call on, so that an alert sees the first failure.
func (m *Metrics) Failures(endpoint string) *Failures {
	return &Failures{
		invalid: m.failed.WithLabelValues(endpoint, "invalid"), unavailable: m.failed.WithLabelValues(endpoint, "unavailable"),
		defects: m.defects.MustCurryWith(prometheus.Labels{"endpoint": endpoint}),
	}
}

// Invalid counts a request that the endpoint rejected because of what it contains.
func (f *Failures) Invalid() { f.invalid.Inc() }

// Defect counts a request that was decided although a part of it cannot be used.
func (f *Failures) Defect(reason string) { f.defects.WithLabelValues(reason).Inc() }

// Unavailable counts a request that the engine did not decide because of err. A request that was shed is counted elsewhere, and a caller that
// gave up waits for no decision.
func (f *Failures) Unavailable(err error) {
	if !errors.Is(err, limiter.ErrOverloaded) && !errors.Is(err, context.Canceled) {
		f.unavailable.Inc()
	}
}
