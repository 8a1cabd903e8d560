package envoy

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// rateLimitDoor answers Envoy's rate limit filter.
type rateLimitDoor struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	engine     *engine.Engine
	style      reply.Style
	log        *slog.Logger
	seconds    Observer
	multiplier bool
}

func newRateLimitDoor(o *Options) *rateLimitDoor {
	return &rateLimitDoor{engine: o.Engine, style: o.Style, log: o.Log, seconds: o.RateLimitSeconds, multiplier: o.UnitMultiplier}
}

// ShouldRateLimit implements ratelimitv3.RateLimitServiceServer.
func (d *rateLimitDoor) ShouldRateLimit(ctx context.Context, in *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
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
func (d *rateLimitDoor) decide(ctx context.Context, q *questions) ([]engine.Answer, error) {
	if q.uniform() && q.intents[0] != refund {
		return d.engine.CheckAll(ctx, q.checks)
	}
	return d.decideByIntent(ctx, q)
}

// decideByIntent refunds first, so that the rest of the request sees what is back; then looks; then spends, unless a look
// has denied: then it only asks. A refund asks for nothing, so it stays whatever the rest is answered, and is told how its
// counter stands.
func (d *rateLimitDoor) decideByIntent(ctx context.Context, q *questions) ([]engine.Answer, error) {
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
func (d *rateLimitDoor) response(q *questions, answers []engine.Answer, now time.Time) *ratelimitv3.RateLimitResponse {
	out := &ratelimitv3.RateLimitResponse{Statuses: statuses(answers, d.multiplier), DynamicMetadata: metadata(answers)}
	told := together(answers, q.intents)
	header := http.Header{}
	if err := d.style.SetHeaders(header, &told, now); err != nil {
		d.log.Warn("a decision goes out without rate-limit headers", "error", err)
	}
	out.OverallCode = code(told.Allowed)
	if !told.Allowed {
		header.Set("Content-Type", reply.ProblemType)
		out.RawBody = reply.Denied(&told).JSON()
	}
	for name, value := range reply.Fields(header) {
		out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, &corev3.HeaderValue{Key: name, Value: value})
	}
	return out
}
