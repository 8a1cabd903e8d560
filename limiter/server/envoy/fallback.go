package envoy

import (
	"context"
	"net/http"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
)

// fallback serves the calls that the transport does not serve itself. ServeHTTP of grpc-go returns when the context of a request is done, although
// the handler still runs. Then the transport would no longer count the call. So the context of the request is never done, and
// cancelReset cancels that of the handler.
type fallback struct{ *grpc.Server }

// transportContext is the key of the context that is done when the stream is reset.
type transportContext struct{}

// ServeHTTP implements http.Handler. It returns when the handler of the call has ended.
func (f fallback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := context.WithValue(context.WithoutCancel(r.Context()), transportContext{}, r.Context())
	f.Server.ServeHTTP(w, r.WithContext(ctx))
}

// cancelReset is an interceptor that ends the context of a handler when its stream is reset. Unary handlers of the fallback do not need it: they do
// not wait.
func cancelReset(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	if transport, is := ctx.Value(transportContext{}).(context.Context); is {
		defer context.AfterFunc(transport, cancel)()
	}
	return handle(service, &middleware.WrappedServerStream{ServerStream: stream, WrappedContext: ctx})
}
