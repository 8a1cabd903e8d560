package envoy

import (
	"context"
	"time"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter/tracing"
)

// The full methods of the endpoints, as spans name them.
const (
	rateLimitMethod = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	authMethod      = "envoy.service.auth.v3.Authorization/Check"
)

// startSpan starts the span of a call if it is sampled.
func startSpan(ctx context.Context, t *tracing.Tracer, method, endpoint string, began time.Time) (context.Context, *tracing.Span) {
	if t == nil {
		return ctx, nil
	}
	return t.GRPC(ctx, method, endpoint, began, func(field string) string {
		if values := metadata.ValueFromIncomingContext(ctx, field); len(values) > 0 {
			return values[0]
		}
		return ""
	})
}

// endSpan ends the span of a call with the status of err.
func endSpan(span *tracing.Span, err error) {
	if span != nil {
		span.EndGRPC(rpccode.Code(status.Code(err)).String())
	}
}
