package engine

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/weir-dev/weir/go/internal/limiter/tracing"
)

// traceMatch returns a function that adds the step that matches c, which begins now, to the span.
func (a *active) traceMatch(span *tracing.Span, s *scratch, c *Check) func() {
	began, previously := time.Now(), len(s.charged)
	return func() {
		domain := strings.ToValidUTF8(c.Request.Domain, "?") // other bytes would make a whole batch of spans invalid
		span.Record("match", began, time.Now(), attribute.String("weir.domain", domain), attribute.Int("weir.policies", len(s.charged)-previously),
			attribute.String("weir.revision", a.index.Revision()))
	}
}

// traceAnswer adds an answer to the span of the request. It adds no identifier, and no key, and no policy in shadow mode: these decide nothing.
func traceAnswer(span *tracing.Span, a *Answer) {
	result := "allowed"
	if !a.Allowed {
		result = "denied"
	}
	span.Set(attribute.String("weir.result", result), attribute.String("weir.source", string(a.Source)))
	first := a.Strictest()
	if first == nil {
		return
	}
	span.Set(
		attribute.String("weir.policy", first.Rule.Policy), attribute.String("weir.axis", first.Rule.Axis),
		attribute.Int64("weir.limit", first.Decision.Limit), attribute.Int64("weir.remaining", first.Remaining),
	)
	if first.Tier != "" {
		span.Set(attribute.String("weir.tier", first.Tier))
	}
}

// traceStrictest adds the first denial of a call with several requests, or else the first answer with a result.
func traceStrictest(span *tracing.Span, answers []Answer) {
	var shown *Answer
	for i := range answers {
		a := &answers[i]
		if len(a.Results) > 0 && (shown == nil || shown.Allowed && !a.Allowed) {
			shown = a
		}
	}
	if shown != nil {
		traceAnswer(span, shown)
	}
}
