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
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/socket"
	"github.com/weir-dev/weir/limiter/tracing"
)

// maxPooled is the size of the largest buffer that is kept between requests, in bytes.
const maxPooled = 16 << 10

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
	buffers  sync.Pool // of *bytes.Buffer
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
	check, bad := d.read(w, r)
	if bad != nil {
		d.gate.Withdraw(announced)
		d.failures.Invalid()
		return reject(w, bad)
	}
	check.Endpoint = "check"
	if !d.gate.Begin(announced) {
		return rejectOverloaded(w)
	}
	ctx, span := d.tracer.HTTP(r, "/v1/check", "check", began)
	decision, err := decide(ctx, d.engine, &check, d.gate)
	if err != nil {
		d.gate.Failed(err)
		d.failures.Unavailable(err)
		reject(w, reply.Unavailable(err))
		status = statusWithout(err)
		span.EndHTTP(status)
		return status
	}
	status = d.write(w, &decision)
	span.Observe(d.seconds, time.Since(began).Seconds())
	span.EndHTTP(status)
	return status
}

// decide decides a request that has entered the gate, which it leaves. A caller that reads its response slowly costs only memory.
func decide(ctx context.Context, e *engine.Engine, check *engine.Check, gate *overload.Endpoint) (engine.Answer, error) {
	defer gate.Leave()
	return e.Check(ctx, check)
}

// read returns the check in the body of r.
func (d *checkEndpoint) read(w http.ResponseWriter, r *http.Request) (engine.Check, *reply.Problem) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return engine.Check{}, reply.NewProblem(http.StatusMethodNotAllowed, "", "the method must be POST, not "+clip(r.Method))
	}
	if r.ContentLength > maxBody {
		return engine.Check{}, bodyTooLarge()
	}
	buffer := d.buffer()
	defer d.release(buffer)
	if _, err := buffer.ReadFrom(io.LimitReader(r.Body, maxBody+1)); err != nil {
		return engine.Check{}, bodyIncomplete(err)
	}
	if buffer.Len() > maxBody {
		return engine.Check{}, bodyTooLarge()
	}
	return decode(buffer.Bytes())
}

// write sends a decision, and returns the status. The units of a caller that closed the connection stay spent.
func (d *checkEndpoint) write(w http.ResponseWriter, decision *engine.Answer) (status int) {
	if err := d.style.SetHeaders(w.Header(), decision, time.Now()); err != nil {
		d.log.Warn("a response has no rate-limit headers, because they cannot be formatted", "error", err)
	}
	buffer := d.buffer()
	defer d.release(buffer)
	answer := reply.NewAnswer(decision)
	buffer.Write(answer.AppendJSON(buffer.AvailableBuffer()))
	w.Header()["Content-Type"] = []string{"application/json"}
	status = http.StatusOK
	if !decision.Allowed {
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
func bodyIncomplete(err error) *reply.Problem {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return badField(bodyField, fmt.Sprintf("did not arrive within %v", socket.ReadTimeout))
	}
	return badField(bodyField, "ended early")
}

func bodyTooLarge() *reply.Problem {
	return badField(bodyField, fmt.Sprintf("is larger than %d bytes", maxBody))
}
