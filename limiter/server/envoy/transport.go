package envoy

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/server/h2"
	"github.com/weir-dev/weir/limiter/tracing"
)

// Transport is what serves the connections of a Server.
type Transport string

// The transports. docs/adr/0073 has the reasons.
const (
	// FastTransport is limiter/server/h2. It serves unary calls.
	FastTransport Transport = "fast"
	// StandardTransport is the server of grpc-go.
	StandardTransport Transport = "standard"
)

// ParseTransport returns the Transport with a name. The empty name is that of the default.
func ParseTransport(name string) (Transport, error) {
	switch t := Transport(name); t {
	case "":
		return FastTransport, nil
	case FastTransport, StandardTransport:
		return t, nil
	}
	return "", fmt.Errorf("%q is no transport: must be %s or %s", name, FastTransport, StandardTransport)
}

// transport serves connections.
type transport interface {
	// Serve serves the connections of a listener until Shutdown.
	Serve(listener net.Listener) error
	// Shutdown accepts no more connections and calls, and waits for the calls in progress until ctx is done. Then it aborts them and returns an
	// error.
	Shutdown(ctx context.Context) error
}

// writeTimeout is how long a client can read nothing of what it is sent.
const writeTimeout = 20 * time.Second

// newFast returns the fast transport.
func newFast(methods map[string]h2.Method, o *Options) transport {
	settings := h2.Options{
		Methods: methods, Credentials: o.Credentials, Connect: connectTo(o.RateLimitGate),
		MaxMessage: maxMessage, MaxHeaders: maxHeaders, MaxStreams: maxStreams, Buffers: maxBuffers,
		ConnectionTimeout: connectionTimeout, WriteTimeout: writeTimeout,
		KeepaliveAfter: keepaliveAfter, KeepaliveTimeout: keepaliveTimeout, MinPing: minPing, MaxAge: maxAge, MaxAgeGrace: maxAgeGrace,
	}
	if o.Tracer != nil {
		settings.Metadata = tracing.Fields()
	}
	return h2.New(settings)
}

// connectTo returns a function that gives a new connection its share of the gate of the process, which all endpoints have in common.
func connectTo(gate *overload.Endpoint) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context {
		if share := gate.Share(); share != nil {
			return overload.WithShare(ctx, share)
		}
		return ctx
	}
}
