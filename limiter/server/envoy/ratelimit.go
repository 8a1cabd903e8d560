package envoy

import (
	"context"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// rateLimitEndpoint answers Envoy's rate limit filter.
type rateLimitEndpoint struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	engine     *engine.Engine
	style      reply.Style
	log        *slog.Logger
	seconds    Observer
	multiplier bool
	metadata   protowire.Number // of the field dynamic_metadata
}

func newRateLimitEndpoint(o *Options) *rateLimitEndpoint {
	return &rateLimitEndpoint{
		engine: o.Engine, style: o.Style, log: o.Log, seconds: o.RateLimitSeconds, multiplier: o.UnitMultiplier,
		metadata: metadataField(&ratelimitv3.RateLimitResponse{}),
	}
}

// ShouldRateLimit implements ratelimitv3.RateLimitServiceServer.
func (d *rateLimitEndpoint) ShouldRateLimit(ctx context.Context, in *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	began := time.Now()
	q, err := readRateLimit(in)
	if err != nil {
		return nil, err
	}
	answers, err := d.decide(ctx, &q)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	out := d.response(&q, answers, began)
	observe(d.seconds, began)
	return out, nil
}

// decide answers all questions as one: nothing is spent unless all pass.
func (d *rateLimitEndpoint) decide(ctx context.Context, q *questions) ([]engine.Answer, error) {
	if q.uniform() && q.intents[0] != refund {
		return d.engine.CheckAll(ctx, q.checks)
	}
	return d.decideByIntent(ctx, q)
}

// decideByIntent refunds first, so that the rest of the request sees what is back; then looks; then spends, unless a look
// has denied: then it only asks. A refund asks for nothing, so it stays whatever the rest is answered, and is told how its
// counter stands.
func (d *rateLimitEndpoint) decideByIntent(ctx context.Context, q *questions) ([]engine.Answer, error) {
	var refunds, asked, spent []engine.Check
	var askedAt, spentAt []int
	for i, c := range q.checks {
		switch q.intents[i] {
		case refund:
			refunds = append(refunds, c)
			c.Cost, c.Peek = 0, true
			asked, askedAt = append(asked, c), append(askedAt, i)
		case look:
			asked, askedAt = append(asked, c), append(askedAt, i)
		case spend:
			spent, spentAt = append(spent, c), append(spentAt, i)
		}
	}
	if len(refunds) > 0 {
		if err := d.engine.Refund(ctx, refunds); err != nil {
			return nil, err
		}
	}
	answers := make([]engine.Answer, len(q.checks))
	told, err := d.engine.CheckAll(ctx, asked)
	if err != nil {
		return nil, err
	}
	pass := true
	for i, a := range told {
		if q.intents[askedAt[i]] == refund {
			a.Allowed = true
		}
		pass = pass && a.Allowed
		answers[askedAt[i]] = a
	}
	if len(spent) == 0 {
		return answers, nil
	}
	for i := range spent {
		spent[i].Peek = !pass
	}
	told, err = d.engine.CheckAll(ctx, spent)
	if err != nil {
		return nil, err
	}
	for i, a := range told {
		answers[spentAt[i]] = a
	}
	return answers, nil
}

// response puts answers into Envoy's words.
func (d *rateLimitEndpoint) response(q *questions, answers []engine.Answer, now time.Time) *ratelimitv3.RateLimitResponse {
	out := &ratelimitv3.RateLimitResponse{Statuses: statuses(answers, d.multiplier)}
	setMetadata(out, d.metadata, answers)
	told := together(answers, q.intents)
	out.OverallCode = code(told.Allowed)
	var room [5]reply.Field
	fields := room[:0]
	if !told.Allowed {
		fields = append(fields, problemType())
		out.RawBody = reply.Denied(&told).JSON()
	}
	fields, err := d.style.AppendFields(fields, &told, now)
	if err != nil {
		d.log.Warn("a decision goes out without rate-limit headers", "error", err)
	}
	out.ResponseHeadersToAdd = headers(fields)
	return out
}

// headers are fields as Envoy has them.
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

// problemType is the field that goes with a problem, the first of all by name.
func problemType() reply.Field {
	return reply.Field{Name: "Content-Type", Lower: "content-type", Value: reply.ProblemType}
}
