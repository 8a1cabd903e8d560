package envoy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/socket"
	"github.com/weir-dev/weir/limiter/tracing"
)

// Bounds of the server.
const (
	// maxMessage is in bytes. A client must not reach it, because with a failure mode that allows, Envoy serves the request uncounted.
	// Envoy accepts 60 KiB of request headers by default, ext_authz sends the path and the host twice, and the value of a header can be in each entry
	// of a descriptor.
	maxMessage = 1 << 20
	// maxHeaders bounds a header list, in bytes. Envoy copies headers of its client, such as tracestate, into the metadata of its calls.
	maxHeaders = 256 << 10
	// maxBuffers bounds the bytes that the connections of the process hold for calls that are not complete, in both directions.
	maxBuffers        = 16 << 20
	maxStreams        = 1024 // concurrent streams per connection; Envoy opens another connection for more
	connectionTimeout = 10 * time.Second
	// After keepaliveAfter without activity the server sends a ping, and closes the connection if there is no reply within
	// keepaliveTimeout.
	keepaliveAfter, keepaliveTimeout = time.Minute, 10 * time.Second
	// The minimum interval between pings of a client, for Envoy with keepalive.
	minPing = 10 * time.Second
	// The server closes old connections gracefully, so that the load balances over new replicas behind one address.
	maxAge, maxAgeGrace = 10 * time.Minute, 30 * time.Second
)

// Observer records the duration of decisions, in seconds.
type Observer interface{ Observe(seconds float64) }

// Failures counts the requests of an endpoint that got no decision.
type Failures interface {
	// Invalid counts a request that the endpoint rejects because of what it contains.
	Invalid()
	// Unavailable counts a request that the engine did not decide because of err.
	Unavailable(err error)
	// Defect counts a request that was decided although a part of it cannot be used. The name is that of a defect in defects.go.
	Defect(name string)
}

// Requests counts the calls of an endpoint by the code of the response.
type Requests interface {
	// Count counts a call whose response has a code of gRPC.
	Count(code uint32)
	// CountOverLimit counts a call that the rate limit service denied. Its code of gRPC is OK.
	CountOverLimit()
}

// uncounted is the Failures and the Requests of an endpoint without metrics.
type uncounted struct{}

func (uncounted) Invalid()          {}
func (uncounted) Unavailable(error) {}
func (uncounted) Defect(string)     {}
func (uncounted) Count(uint32)      {}
func (uncounted) CountOverLimit()   {}

// Options configure a Server. Engine and Log are required.
type Options struct {
	Engine *engine.Engine
	// Style selects the rate-limit headers of responses. "" disables them.
	Style reply.Style
	Log   *slog.Logger
	// Ready returns why the limiter is not ready, for the health service. Nil means always ready.
	Ready func() error
	// RateLimitSeconds and ExtAuthzSeconds record the decisions of their endpoint. Nil disables recording.
	RateLimitSeconds, ExtAuthzSeconds Observer
	// RateLimitFailures and ExtAuthzFailures count the requests of their endpoint that got no decision. Nil disables counting.
	RateLimitFailures, ExtAuthzFailures Failures
	// RateLimitRequests and ExtAuthzRequests count the calls of their endpoint. Nil disables counting.
	RateLimitRequests, ExtAuthzRequests Requests
	// RateLimitGate and ExtAuthzGate reject calls of their endpoint while the process is overloaded. Nil admits all calls.
	RateLimitGate, ExtAuthzGate *overload.Endpoint
	// Tracer traces sampled calls. Nil traces nothing.
	Tracer *tracing.Tracer
	// Credentials of the server. Nil disables TLS.
	Credentials credentials.TransportCredentials
	// ClientIP returns the client address for the address of Envoy's peer, which is the zero Addr if it is unknown, and the headers
	// with names in lower case. Nil means that the peer is the client. A function must not believe a header unless the peer is a known
	// proxy: by default, Envoy passes the headers of clients on. It applies only to ext_authz: in RLS, Envoy reports the
	// client in the descriptor.
	ClientIP func(peer netip.Addr, headers map[string]string) netip.Addr
	// DefaultDomain is the domain of ext_authz requests without the context extension "domain". If both are empty, only the policies for
	// all domains apply.
	DefaultDomain string
	// Refunds accepts is_negative_hits in RLS. Otherwise such calls fail as PERMISSION_DENIED.
	Refunds bool
	// Reference makes RLS answer as the rate limit service of the Envoy project does. Style and UnitMultiplier then do not apply to
	// it. Nil means the responses of Weir.
	Reference *Reference
	// UnitMultiplier reports a window such as 15 minutes as a multiple of a unit in RLS statuses. An Envoy without support for the
	// field reads it as one unit. Otherwise, the unit of such a window is UNKNOWN.
	UnitMultiplier bool
	// ErrorResponse responds with an error_response, 503 and Retry-After, to ext_authz calls without a decision. An Envoy without
	// support for the field treats it as a denial, even with failure_mode_allow. Otherwise, such calls fail as UNAVAILABLE.
	ErrorResponse bool
	// Transport serves the connections. "" means FastTransport.
	Transport Transport
	// Reflection serves the reflection service, which only StandardTransport can.
	Reflection bool
	// Drain is how long the server keeps accepting calls after the context of Run is done.
	Drain time.Duration
}

// Server is the gRPC server of a limiter.
type Server struct {
	transport transport
	health    *healthEndpoint
	drain     time.Duration
}

// NewServer returns a Server. Run starts it.
func NewServer(o Options) *Server {
	s := &Server{health: newHealthEndpoint(&o), drain: o.Drain}
	methods := s.health.methods()
	rateLimit, auth := newRateLimitEndpoint(&o), newAuthEndpoint(&o)
	methods[ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName] = gatedMethod{
		o.RateLimitGate, cmp.Or[Requests](o.RateLimitRequests, uncounted{}), rateLimit.failures, o.Log, rateLimit.serve,
	}.method()
	methods[authv3.Authorization_Check_FullMethodName] = gatedMethod{
		o.ExtAuthzGate, cmp.Or[Requests](o.ExtAuthzRequests, uncounted{}), auth.failures, o.Log, auth.serve,
	}.method()
	if o.Transport == StandardTransport {
		s.transport = newStandard(methods, s.health, &o)
	} else {
		s.transport = newFast(methods, &o)
	}
	return s
}

// Run serves on listener, which it closes, until ctx is done. Then it reports not healthy, accepts calls for Drain, and waits for calls in
// flight. The error is nil after a clean shutdown. A Server can run only once.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	following, unfollow := context.WithCancel(context.Background())
	var follower sync.WaitGroup
	follower.Go(func() { s.health.refreshPeriodically(following) })
	defer follower.Wait()
	defer unfollow()

	failed := make(chan error, 1)
	go func() { failed <- s.transport.Serve(listener) }()
	cause := socket.Drain(ctx, s.drain, s.health.Shutdown, failed)
	if cause != nil {
		cause = fmt.Errorf("serve gRPC on %s: %w", listener.Addr(), cause)
	}
	return errors.Join(cause, s.stop())
}

// stop rejects new calls and waits for calls in flight, at most socket.StopTimeout.
func (s *Server) stop() error {
	s.health.end()
	ctx, cancel := context.WithTimeout(context.Background(), socket.StopTimeout)
	defer cancel()
	if err := s.transport.Shutdown(ctx); err != nil {
		return fmt.Errorf("gRPC calls did not end within %v and were aborted", socket.StopTimeout)
	}
	return nil
}

// unavailable returns the status of a call without a decision because of err, an error of the engine. It is never a response with the
// code UNKNOWN, for which Envoy allows the request: the failure mode of Envoy must decide.
func unavailable(ctx context.Context, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return status.FromContextError(ctxErr).Err()
	}
	return status.Error(codes.Unavailable, reply.Unavailable(err).Detail)
}

// observe records the duration of a call.
func observe(o Observer, span *tracing.Span, began time.Time) {
	if o != nil {
		span.Observe(o, time.Since(began).Seconds())
	}
}
