package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/socket"
	"github.com/weir-dev/weir/limiter/tracing"
)

const (
	// maxPooled is the size of the largest buffer that is kept between requests, in bytes.
	maxPooled = 16 << 10
	// maxLargeBytes bounds the total size of bodies over smallBody that are handled at the same time, in bytes. The rest is denied. A body
	// takes up to 15 times its size.
	maxLargeBytes = 4 << 20
	// largeTimeout bounds how long a sender of such a body can keep others from sending theirs.
	largeTimeout = time.Second
)

// checkEndpoint serves POST /v1/check.
type checkEndpoint struct {
	engine   *engine.Engine
	style    reply.Style
	log      *slog.Logger
	seconds  prometheus.Observer
	gate     *overload.Endpoint
	failures *Failures
	requests *HTTPRequests
	tracer   *tracing.Tracer
	buffers  sync.Pool    // of *bytes.Buffer
	large    atomic.Int64 // bytes of bodies over smallBody that are handled now
}

// checkRequest is the body of a request to the endpoint.
type checkRequest struct {
	check   engine.Check
	defects []string
	// denied is the answer for a body that is too large to decode. Nil means that the check is to be decided.
	denied *reply.Answer
}

func (d *checkEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.requests.Count(d.serve(w, r))
}

// serve returns the status of the response.
func (d *checkEndpoint) serve(w http.ResponseWriter, r *http.Request) (status int) {
	began := time.Now()
	announced, admitted := d.gate.Announce()
	if !admitted {
		return rejectOverloaded(w)
	}
	request, bad := d.read(w, r)
	if bad != nil {
		d.gate.Withdraw(announced)
		d.failures.Invalid()
		return reject(w, bad)
	}
	for _, defect := range request.defects {
		d.failures.Defect(defect)
	}
	if request.denied != nil {
		d.gate.Withdraw(announced)
		return d.write(w, request.denied)
	}
	request.check.Endpoint = "check"
	if !d.gate.Begin(announced) {
		return rejectOverloaded(w)
	}
	ctx, span := d.tracer.HTTP(r, "/v1/check", "check", began)
	decision, err := decide(ctx, d.engine, &request.check, d.gate)
	if err != nil {
		d.gate.Failed(err)
		d.failures.Unavailable(err)
		reject(w, reply.Unavailable(err))
		status = statusWithout(err)
		span.EndHTTP(status)
		return status
	}
	if err := d.style.SetHeaders(w.Header(), &decision, time.Now()); err != nil {
		d.log.Warn("a response has no rate-limit headers, because they cannot be formatted", "error", err)
	}
	answer := reply.NewAnswer(&decision)
	answer.Defects = request.defects
	status = d.write(w, &answer)
	span.Observe(d.seconds, time.Since(began).Seconds())
	span.EndHTTP(status)
	return status
}

// decide decides a request that has entered the gate, which it leaves. A caller that reads its response slowly costs only memory.
func decide(ctx context.Context, e *engine.Engine, check *engine.Check, gate *overload.Endpoint) (engine.Answer, error) {
	defer gate.Leave()
	return e.Check(ctx, check)
}

// read returns the check in the body of r, or the denial of a body that is too large: a client can influence how large it is.
func (d *checkEndpoint) read(w http.ResponseWriter, r *http.Request) (checkRequest, *reply.Problem) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return checkRequest{}, reply.NewProblem(http.StatusMethodNotAllowed, "", "the method must be POST, not "+clip(r.Method))
	}
	buffer := d.buffer()
	defer d.release(buffer)
	most := int64(maxBody)
	if r.ContentLength >= 0 {
		most = r.ContentLength
	}
	if most > maxBody {
		return tooLargeToDecode(nil), nil
	}
	if _, err := buffer.ReadFrom(io.LimitReader(r.Body, min(most, smallBody)+1)); err != nil {
		return checkRequest{}, bodyIncomplete(err, socket.ReadTimeout)
	}
	if buffer.Len() > smallBody {
		defer d.large.Add(-most)
		if d.large.Add(most) > maxLargeBytes {
			return tooLargeToDecode(new(time.Second.Milliseconds())), nil
		}
		reading := http.NewResponseController(w)
		_ = reading.SetReadDeadline(time.Now().Add(largeTimeout)) // an httptest.ResponseRecorder has no deadline
		if _, err := buffer.ReadFrom(io.LimitReader(r.Body, most-smallBody)); err != nil {
			return checkRequest{}, bodyIncomplete(err, largeTimeout)
		}
		_ = reading.SetReadDeadline(time.Now().Add(socket.ReadTimeout)) // so that a slow decision does not look like a closed connection
	}
	check, defects, bad := decode(buffer.Bytes())
	if slices.Contains(defects, defectSize) {
		return tooLargeToDecode(nil), nil
	}
	return checkRequest{check: check, defects: defects}, bad
}

// tooLargeToDecode returns the denial of a body. A retry after some milliseconds can succeed, or the denial is permanent.
func tooLargeToDecode(retryAfter *int64) checkRequest {
	defects := []string{defectSize}
	return checkRequest{
		defects: defects,
		denied:  &reply.Answer{RetryAfterMs: retryAfter, Source: engine.SourceNone, Results: []reply.Result{}, Defects: defects},
	}
}

// write sends a decision, and returns the status. The units of a caller that closed the connection stay spent.
func (d *checkEndpoint) write(w http.ResponseWriter, answer *reply.Answer) (status int) {
	buffer := d.buffer()
	defer d.release(buffer)
	buffer.Write(answer.AppendJSON(buffer.AvailableBuffer()))
	w.Header()["Content-Type"] = []string{"application/json"}
	status = http.StatusOK
	if !answer.Allowed {
		status = http.StatusTooManyRequests
	}
	w.WriteHeader(status)
	_, _ = w.Write(buffer.Bytes())
	return status
}

func (d *checkEndpoint) buffer() *bytes.Buffer {
	if b, ok := d.buffers.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

func (d *checkEndpoint) release(b *bytes.Buffer) {
	if b.Cap() > maxPooled {
		return
	}
	b.Reset()
	d.buffers.Put(b)
}

// bodyIncomplete returns the problem for a body that ended early. It leaves out the text of err, which may contain addresses.
func bodyIncomplete(err error, timeout time.Duration) *reply.Problem {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return badField(bodyField, fmt.Sprintf("did not arrive within %v", timeout))
	}
	return badField(bodyField, "ended early")
}
