package throttle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// Path is where API servers ask.
const Path = "/v1/throttle"

const (
	// maxPooled is the largest buffer worth keeping between requests, in bytes: most objects are of a few kilobytes.
	maxPooled = 64 << 10
	// largeAtOnce is how many bytes of questions larger than that are worked on at once. A processor takes 100 MB of them a second,
	// so more at once would be no faster, and a tenant who writes large objects would have the process run out of memory.
	maxLargeBytes = 8 << 20
)

// Engine decides.
type Engine interface {
	Check(ctx context.Context, c *engine.Check) (engine.Answer, error)
}

// Observer is told how long decisions took, in seconds.
type Observer interface{ Observe(seconds float64) }

// door answers POST /v1/throttle.
type handler struct {
	engine   Engine
	settings *Settings
	seconds  Observer
	buffers  sync.Pool           // of *bytes.Buffer
	large    *semaphore.Weighted // of largeAtOnce
}

// NewDoor returns what a limiter serves to API servers. What is no question of theirs it refuses with
// application/problem+json.
func NewHandler(e Engine, terms *Settings, seconds Observer) http.Handler {
	return &handler{engine: e, settings: terms, seconds: seconds, large: semaphore.NewWeighted(maxLargeBytes)}
}

// ServeHTTP implements http.Handler.
func (d *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), decisionTimeout(r))
	defer cancel()
	bad := checkTarget(w, r)
	if bad == nil {
		bad = d.review(ctx, w, r)
	}
	if bad != nil {
		bad.Write(w)
		return
	}
	d.seconds.Observe(time.Since(began).Seconds())
}

// misaddressed says what is wrong with a request that asks nothing here; nil for one that may.
func checkTarget(w http.ResponseWriter, r *http.Request) *reply.Problem {
	if r.URL.Path != Path {
		return reply.NewProblem(http.StatusNotFound, "", "there is no "+clip(r.URL.Path, maxName)+"; ask POST "+Path)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return reply.NewProblem(http.StatusMethodNotAllowed, "", "ask with POST, not "+clip(r.Method, maxName))
	}
	return nil
}

// answer reads a question and answers it, unless it returns why not.
func (d *handler) review(ctx context.Context, w http.ResponseWriter, r *http.Request) *reply.Problem {
	if size := bodyWeight(r); size > maxPooled {
		if d.large.Acquire(ctx, size) != nil {
			return reply.NewProblem(http.StatusServiceUnavailable, "body", "the body is large, and other large ones took all the time there was")
		}
		defer d.large.Release(size)
		deadline, _ := ctx.Deadline()
		_ = http.NewResponseController(w).SetReadDeadline(deadline) // who sends slowly holds up others; a recorder has none
	}
	in, bad := d.read(r)
	if bad != nil {
		return bad
	}
	write(w, d.decide(ctx, in))
	return nil
}

// weight of a question, in bytes of largeAtOnce. One that is larger than all of it is worked on alone, as is one of unknown size.
func bodyWeight(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return maxLargeBytes
	}
	return min(r.ContentLength, maxLargeBytes)
}

func (d *handler) read(r *http.Request) (*admissionv1.AdmissionRequest, *reply.Problem) {
	buffer := d.buffer()
	defer d.release(buffer)
	if bad := readBody(r, buffer); bad != nil {
		return nil, bad
	}
	return decodeReview(buffer.Bytes())
}

// decide answers a question. Without a decision the write passes: what cannot be decided is no reason to stop a cluster.
func (d *handler) decide(ctx context.Context, in *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if d.settings.isExempt(in) {
		return allow(in, "exempt")
	}
	answer, err := d.engine.Check(ctx, &engine.Check{Request: toRequest(in), Cost: 1, Peek: isDryRun(in), NoDelay: true})
	if err != nil {
		return d.settings.failureResponse(in, err)
	}
	return d.settings.response(in, &answer)
}

// write sends a review. An API server that is gone gets nothing, and the units stay spent.
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

func (d *handler) buffer() *bytes.Buffer {
	if b, ok := d.buffers.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

func (d *handler) release(b *bytes.Buffer) {
	if b.Cap() > maxPooled {
		return
	}
	b.Reset()
	d.buffers.Put(b)
}
