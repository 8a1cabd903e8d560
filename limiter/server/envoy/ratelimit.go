package envoy

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/tracing"
)

// rateLimitEndpoint serves the rate limit filter of Envoy.
type rateLimitEndpoint struct {
	engine     *engine.Engine
	style      reply.Style
	log        *slog.Logger
	seconds    Observer
	gate       *overload.Endpoint
	failures   Failures
	multiplier bool
	refunds    bool           // whether callers can refund units
	refused    rate.Sometimes // limits the log lines about refused refunds
	calls      *sync.Pool
	reference  *Reference // nil for the responses of Weir
	tracer     *tracing.Tracer
}

func newRateLimitEndpoint(o *Options) *rateLimitEndpoint {
	return &rateLimitEndpoint{
		engine: o.Engine, style: o.Style, log: o.Log, seconds: o.RateLimitSeconds, gate: o.RateLimitGate,
		failures:   cmp.Or[Failures](o.RateLimitFailures, uncounted{}),
		multiplier: o.UnitMultiplier, refunds: o.Refunds, refused: rate.Sometimes{First: 1, Interval: logInterval}, calls: newCalls(),
		reference: o.Reference, tracer: o.Tracer,
	}
}

// overLimit is the code with which a call that is denied counts. Its code of gRPC is OK.
const overLimit = math.MaxUint32

// serve decides a message, and appends the response to out.
func (d *rateLimitEndpoint) serve(ctx context.Context, message, out []byte) (response []byte, code uint32, err error) {
	c := d.calls.Get().(*call) //nolint:forcetypeassert // all its values have this type
	defer c.release()
	if err = c.request.Decode(message); err != nil {
		d.failures.Invalid()
		err = malformed(err)
	} else {
		err = d.shouldRateLimit(ctx, c, out)
	}
	switch {
	case err != nil:
		return nil, uint32(status.Code(err)), err
	case c.overLimit:
		return c.response, overLimit, nil
	}
	return c.response, uint32(codes.OK), nil
}

// shouldRateLimit decides the request of c, and sets its response, which it appends to out.
func (d *rateLimitEndpoint) shouldRateLimit(ctx context.Context, c *call, out []byte) error {
	began := time.Now()
	c.response = out
	if err := c.batch.parse(&c.request); err != nil {
		d.failures.Invalid()
		return err
	}
	if d.reference != nil {
		d.reference.adapt(&c.batch)
	}
	if i := slices.Index(c.batch.intents, refund); i >= 0 && !d.refunds {
		d.logRefund(ctx)
		if !c.batch.withoutRefunds() {
			d.failures.Invalid()
			return status.Errorf(codes.PermissionDenied, "descriptors[%d].is_negative_hits: refunds are forbidden on this endpoint; "+
				"set endpoints.grpc.refunds of the Limiter, or --grpc-refunds, to Allowed", i)
		}
	}
	c.batch.defects.Each(d.failures.Defect)
	ctx, span := startSpan(ctx, d.tracer, rateLimitMethod, "rls", began)
	answers, err := d.decide(ctx, &c.batch)
	if err != nil {
		d.gate.Failed(err)
		d.failures.Unavailable(err)
		err = unavailable(ctx, err)
		endSpan(span, err)
		return err
	}
	if d.reference != nil {
		c.response, c.overLimit = d.reference.respond(c.response, answers, &c.batch, began)
	} else {
		d.respond(c, answers, began)
	}
	observe(d.seconds, span, began)
	endSpan(span, nil)
	return nil
}

// logInterval is the time between two log lines about the same thing: a flood of calls must not flood the log.
const logInterval = time.Minute

// logRefund logs a call that refunds units, although its endpoint forbids refunds.
func (d *rateLimitEndpoint) logRefund(ctx context.Context) {
	d.refused.Do(func() {
		caller := "unknown"
		if p, found := grpcpeer.FromContext(ctx); found {
			caller = p.Addr.String()
		}
		d.log.Warn("a call refunds units, which this endpoint forbids; allow it with endpoints.grpc.refunds of the Limiter or --grpc-refunds",
			"caller", caller)
	})
}

// decide decides all checks together: it spends nothing unless all of them pass.
func (d *rateLimitEndpoint) decide(ctx context.Context, q *batch) ([]engine.Answer, error) {
	if d.reference != nil && d.reference.Mixed != nil && d.reference.Mixed() {
		return d.reference.decideEach(ctx, d.engine, q)
	}
	if d.reference != nil && d.reference.CountsDenied {
		return d.reference.decide(ctx, d.engine, q)
	}
	if q.uniform() && q.intents[0] != refund {
		return d.engine.CheckAll(ctx, q.checks)
	}
	return d.decideByIntent(ctx, q)
}

// decideByIntent refunds first, so that the rest of the request can use the refunded units. Then it peeks, and then it spends, or
// counts only the debts if the first peek denied. A refund is independent of the other descriptors: it stays, and its status reports its counter.
func (d *rateLimitEndpoint) decideByIntent(ctx context.Context, q *batch) ([]engine.Answer, error) {
	var refunds, peeks, spends []engine.Check
	var peekIndexes, spendIndexes []int
	for i, c := range q.checks {
		switch q.intents[i] {
		case refund:
			refunds = append(refunds, c)
			c.Cost, c.Peek = 0, true
			peeks, peekIndexes = append(peeks, c), append(peekIndexes, i)
		case peek:
			peeks, peekIndexes = append(peeks, c), append(peekIndexes, i)
		case spend:
			spends, spendIndexes = append(spends, c), append(spendIndexes, i)
		}
	}
	if len(refunds) > 0 {
		if err := d.engine.Refund(ctx, refunds); err != nil {
			return nil, err
		}
	}
	answers := make([]engine.Answer, len(q.checks))
	results, err := d.engine.CheckAll(ctx, peeks)
	if err != nil {
		return nil, err
	}
	pass := true
	for i, a := range results {
		if q.intents[peekIndexes[i]] == refund {
			a.Allowed = true
		}
		pass = pass && a.Allowed
		answers[peekIndexes[i]] = a
	}
	if len(spends) == 0 {
		return answers, nil
	}
	for i := range spends {
		spends[i].Peek, spends[i].CountDebts = !pass, !pass
	}
	results, err = d.engine.CheckAll(ctx, spends)
	if err != nil {
		return nil, err
	}
	for i, a := range results {
		answers[spendIndexes[i]] = a
	}
	return answers, nil
}

// respond sets the response of c, the RateLimitResponse for answers in wire format. The generated code would take several times as long.
func (d *rateLimitEndpoint) respond(c *call, answers []engine.Answer, now time.Time) {
	merged := mergeAnswers(answers, c.batch.intents)
	b := appendEnum(c.response, responseOverallCode, code(merged.Allowed))
	for i := range answers {
		b = appendStatus(b, &answers[i], d.multiplier)
	}
	fields := c.fields[:0]
	var denial reply.Denial
	if !merged.Allowed {
		denial = reply.NewDenial(&merged)
		denial.Status = http.StatusTooManyRequests // the filter sends the status of its configuration
		fields = denial.AppendFields(fields)
	}
	fields, err := d.style.AppendFields(fields, &merged, now)
	if err != nil {
		d.log.Warn("a response has no rate-limit headers, because they cannot be formatted", "error", err)
	}
	for i := range fields {
		b = appendHeader(b, fields[i].Lower, fields[i].Value)
	}
	if !merged.Allowed {
		var body int
		b, body = beginMessage(b, responseRawBody)
		b = endMessage(denial.AppendBody(b), body)
	}
	c.fields, c.response, c.overLimit = fields, appendMetadata(b, responseMetadata, answers, c.batch.defects), !merged.Allowed
}

// headers converts fields to headers of Envoy.
func headers(fields []reply.Field) []*corev3.HeaderValue {
	if len(fields) == 0 {
		return nil
	}
	values, list := make([]corev3.HeaderValue, len(fields)), make([]*corev3.HeaderValue, len(fields))
	for i, f := range fields {
		values[i].Key, values[i].Value = f.Lower, f.Value
		list[i] = &values[i]
	}
	return list
}

// problemType returns the Content-Type of a problem. By name, it is the first of all fields.
func problemType() reply.Field {
	return reply.Field{Name: "Content-Type", Lower: "content-type", Value: reply.ProblemType}
}
