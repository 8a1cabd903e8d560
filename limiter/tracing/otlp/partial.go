package otlp

import (
	"context"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// partialSuccess is what a collector reports about a batch of which it accepted at least a part.
type partialSuccess struct {
	rejected int64  // spans
	message  string // a warning if no span is rejected
}

// partialKey is the key of a *partialSuccess in the context of an export.
type partialKey struct{}

// readPartialSuccess is a grpc.UnaryClientInterceptor. It moves the partial success of a response into the context: the SDK makes an error of it
// whose type is internal, so that a rejected span would look like a lost batch.
func readPartialSuccess(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if err := invoke(ctx, method, request, reply, connection, options...); err != nil {
		return err
	}
	response, isTrace := reply.(*collectorv1.ExportTraceServiceResponse)
	success, wanted := ctx.Value(partialKey{}).(*partialSuccess)
	if isTrace && wanted {
		success.rejected, success.message = response.GetPartialSuccess().GetRejectedSpans(), response.GetPartialSuccess().GetErrorMessage()
		response.PartialSuccess = nil
	}
	return nil
}
