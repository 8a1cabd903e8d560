package throttle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/tracing"
)

// Path is the path of the endpoint.
const Path = "/v1/throttle"

const (
	// maxPooled is the largest buffer to keep between requests, in bytes. Most objects have a few kilobytes.
	maxPooled = 64 << 10
	// maxLargeBytes bounds the total size of larger reviews that are handled concurrently, in bytes. A CPU handles 100 MB of them a
	// second, so a higher bound would not be faster. Without a bound, a tenant that writes large objects could exhaust the memory.
	maxLargeBytes = 8 << 20
)

// Engine makes decisions.
type Engine interface {
	Check(ctx context.Context, c *engine.Check) (engine.Answer, error)
}

// Observer records the duration of decisions, in seconds.
type Observer interface{ Observe(seconds float64) }

// Requests counts requests by the HTTP status of the response or, if the response is an AdmissionReview, by the one that it contains.
type Requests interface{ Count(status int) }

// handler serves POST /v1/throttle.
type handler struct {
	engine   Engine
	settings *Settings
	observe  Telemetry
	buffers  sync.Pool           // of *bytes.Buffer
	large    *semaphore.Weighted // of maxLargeBytes
}

// Telemetry receives what a handler reports about requests. The zero value discards it.
type Telemetry struct {
	// Seconds records the duration of decisions. Nil disables recording.
	Seconds Observer
	// Requests counts the requests. Nil disables counting.
	Requests Requests
	// Tracer traces sampled requests. Nil traces nothing.
	Tracer *tracing.Tracer
}

// NewHandler returns the handler of the endpoint. It rejects requests that are not an AdmissionReview with application/problem+json.
func NewHandler(e Engine, settings *Settings, t Telemetry) http.Handler {
	return &handler{engine: e, settings: settings, observe: t, large: semaphore.NewWeighted(maxLargeBytes)}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := h.serve(w, r)
	if h.observe.Requests != nil {
		h.observe.Requests.Count(status)
	}
}

// serve returns the status of a request as Requests counts it.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) (status int) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), decisionTimeout(r))
	defer cancel()
	bad := checkTarget(w, r)
	if bad != nil {
		bad.Write(w)
		return bad.Status
	}
	ctx, span := h.observe.Tracer.HTTP(r.WithContext(ctx), Path, "throttle", began)
	if status, bad = h.review(ctx, w, r); bad != nil {
		bad.Write(w)
		span.EndHTTP(bad.Status)
		return bad.Status
	}
	if h.observe.Seconds != nil {
		span.Observe(h.observe.Seconds, time.Since(began).Seconds())
	}
	span.EndHTTP(http.StatusOK)
	return status
}

// checkTarget returns a problem if the path or method is wrong.
func checkTarget(w http.ResponseWriter, r *http.Request) *reply.Problem {
	if r.URL.Path != Path {
		return reply.NewProblem(http.StatusNotFound, "", "no such path "+clip(r.URL.Path, maxName)+"; use POST "+Path)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return reply.NewProblem(http.StatusMethodNotAllowed, "", "use POST, not "+clip(r.Method, maxName))
	}
	return nil
}

// review reads a review and responds to it, and returns the status of the write. It returns a problem if it does not respond.
func (h *handler) review(ctx context.Context, w http.ResponseWriter, r *http.Request) (status int, bad *reply.Problem) {
	if size := bodyWeight(r); size > maxPooled {
		if h.large.Acquire(ctx, size) != nil {
			return 0, reply.NewProblem(http.StatusServiceUnavailable, "body", "the body is large, and other large bodies took all of the timeout; retry later")
		}
		defer h.large.Release(size)
		deadline, _ := ctx.Deadline()
		if own := time.Now().Add(readTimeout(r.ContentLength)); own.Before(deadline) {
			deadline = own
		}
		_ = http.NewResponseController(w).SetReadDeadline(deadline) // a slow sender would delay others; an httptest.ResponseRecorder has no deadline
	}
	request, bad := h.read(r)
	if bad != nil {
		return 0, bad
	}
	response := h.decide(ctx, request)
	if span := tracing.From(ctx); span != nil {
		span.Set(attribute.String("weir.admission.uid", string(request.UID)))
		response.AuditAnnotations[auditTrace] = span.TraceID()
	}
	write(w, response)
	return statusOf(response), nil
}

// bodyWeight returns the weight of a body, in bytes of maxLargeBytes. A body that is larger than that is handled alone. One of unknown size
// has no weight: readBody rejects it if it is large.
func bodyWeight(r *http.Request) int64 { return min(max(r.ContentLength, 0), maxLargeBytes) }

// readTimeout bounds how long a sender of a large body can keep others from sending theirs. API servers send it within milliseconds.
func readTimeout(size int64) time.Duration {
	const (
		least     = 250 * time.Millisecond
		perSecond = 16 << 20 // bytes
	)
	return least + time.Duration(size)*time.Second/perSecond
}

func (h *handler) read(r *http.Request) (*admissionv1.AdmissionRequest, *reply.Problem) {
	buffer := h.buffer()
	defer h.release(buffer)
	if bad := readBody(r, buffer); bad != nil {
		return nil, bad
	}
	return decodeReview(buffer.Bytes())
}

// decide responds to a review. If there is no decision, the write is allowed: a limiter that fails must not stop a cluster.
func (h *handler) decide(ctx context.Context, review *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	request := toRequest(review)
	if h.settings.isExempt(review, request.Kubernetes) {
		return allow(review, "exempt")
	}
	answer, err := h.engine.Check(ctx, &engine.Check{Request: request, Endpoint: "throttle", Cost: 1, Peek: isDryRun(review), NoDelay: true})
	if err != nil {
		return h.settings.failureResponse(review, err)
	}
	return h.settings.response(review, &answer)
}

// write sends a review. If the API server has disconnected, the units stay spent.
func write(w http.ResponseWriter, response *admissionv1.AdmissionResponse) {
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()},
		Response: response,
	})
	if err != nil {
		panic(fmt.Sprintf("throttle: encoding plain data: %v", err))
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = w.Write(body)
}

func (h *handler) buffer() *bytes.Buffer {
	if b, ok := h.buffers.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

func (h *handler) release(b *bytes.Buffer) {
	if b.Cap() > maxPooled {
		return
	}
	b.Reset()
	h.buffers.Put(b)
}
