package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/rules"
)

// statusClosed counts a request whose caller closed the connection before the response. The number is the one that proxies use in their logs.
const statusClosed = 499

// otherCode is the code of responses that have no series of their own. Only an error in this program makes some.
const otherCode = "other"

func newRequestsVec() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_requests_total",
		Help: "Requests by endpoint and code of the response. For check and auth the code is the HTTP status, or 499 if the caller closed the " +
			"connection. For throttle it is the status in the AdmissionReview, 200 or 429, or 503 if there is no decision, even if the write passes. " +
			"For rls and ext_authz it is the status of gRPC. A denial by rls has OVER_LIMIT, and one by ext_authz RESOURCE_EXHAUSTED. Requests that " +
			"do not reach an endpoint are not counted: those for other paths, and gRPC messages that are too large.",
	}, []string{"endpoint", "code"})
}

// HTTPRequests counts the requests to one endpoint by the HTTP status of the response. It takes no lock and allocates nothing.
type HTTPRequests struct {
	byStatus map[int]prometheus.Counter
	other    prometheus.Counter
}

// HTTPRequests returns the counters of one endpoint. They exist from the first call on, so that an alert sees the first failure.
func (m *Metrics) HTTPRequests(endpoint string) *HTTPRequests {
	r := &HTTPRequests{byStatus: map[int]prometheus.Counter{}, other: m.requests.WithLabelValues(endpoint, otherCode)}
	for _, status := range append(rules.DenialStatuses(), http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusMethodNotAllowed, http.StatusLengthRequired, http.StatusTooManyRequests, statusClosed, http.StatusServiceUnavailable) {
		r.byStatus[status] = m.requests.WithLabelValues(endpoint, strconv.Itoa(status))
	}
	return r
}

// Count counts a request.
func (r *HTTPRequests) Count(status int) {
	if counter, ok := r.byStatus[status]; ok {
		counter.Inc()
		return
	}
	r.other.Inc()
}

// GRPCRequests counts the calls of one endpoint by the code of the response. It takes no lock and allocates nothing.
type GRPCRequests struct {
	byCode    [17]prometheus.Counter // by the number of the code
	overLimit prometheus.Counter
}

// GRPCRequests returns the counters of one endpoint. They exist from the first call on, so that an alert sees the first failure.
func (m *Metrics) GRPCRequests(endpoint string) *GRPCRequests {
	r := &GRPCRequests{overLimit: m.requests.WithLabelValues(endpoint, "OVER_LIMIT")}
	names := [len(r.byCode)]string{
		0: "OK", 1: "CANCELLED", 3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED", 13: "INTERNAL",
		14: "UNAVAILABLE",
	}
	for code, name := range names {
		if name == "" {
			name = otherCode
		}
		r.byCode[code] = m.requests.WithLabelValues(endpoint, name)
	}
	return r
}

// Count counts a call whose response has a code of gRPC.
func (r *GRPCRequests) Count(code uint32) { r.byCode[min(code, uint32(len(r.byCode)-1))].Inc() }

// CountOverLimit counts a call that the rate limit service denied. Its code of gRPC is OK.
func (r *GRPCRequests) CountOverLimit() { r.overLimit.Inc() }

// statusWithout returns the status that counts a request that got no decision because of err.
func statusWithout(err error) int {
	if errors.Is(err, context.Canceled) {
		return statusClosed
	}
	return http.StatusServiceUnavailable
}
