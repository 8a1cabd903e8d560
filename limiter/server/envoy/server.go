package envoy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/socket"
)

// Bounds of the socket.
const (
	maxMessage        = 64 << 10 // bytes
	maxHeaders        = 32 << 10 // bytes
	maxStreams        = 1024     // at once on a connection; Envoy opens another beyond
	connectionTimeout = 10 * time.Second
	// A connection that is quiet for aliveAfter is asked whether the other end is there.
	aliveAfter, aliveWithin = time.Minute, 10 * time.Second
	// Clients may ask that so often, as Envoy does with keepalives on.
	minPing = 10 * time.Second
	// Connections are closed in good order when they are old, so that new replicas get their share of callers that reach
	// them through one address.
	maxAge, maxAgeGrace = 10 * time.Minute, 30 * time.Second
)

// Observer is told how long decisions took, in seconds.
type Observer interface{ Observe(seconds float64) }

// Options of a Server. Engine and Log are required.
type Options struct {
	Engine *engine.Engine
	// Style is how clients are told of their limits; "" tells them of none.
	Style reply.Style
	Log   *slog.Logger
	// Ready says why the limiter should not be sent requests, for the health service; nil: it always should.
	Ready func() error
	// RateLimitSeconds and ExtAuthzSeconds are told of every decision at their endpoint; nil for nobody.
	RateLimitSeconds, ExtAuthzSeconds Observer
	// Credentials of the socket; nil: without TLS.
	Credentials credentials.TransportCredentials
	// ClientIP finds the client's address from that of Envoy's peer, which is the zero Addr if unknown, and the headers,
	// whose names are in lower case. Nil: the peer is the client. For ext_authz alone: in RLS, Envoy itself says who the
	// client is.
	ClientIP func(peer netip.Addr, headers map[string]string) netip.Addr
	// UnitMultiplier writes windows in RLS statuses that are several of a unit, 15 minutes, as such. Envoys that do not know
	// the field take them for one of the unit: without, the unit of such a window is UNKNOWN.
	UnitMultiplier bool
	// ErrorResponse answers ext_authz calls without a decision with an error_response, 503 and Retry-After, which Envoys that
	// do not know the field take for a denial, whatever their failure_mode_allow. Without, such calls fail as UNAVAILABLE.
	ErrorResponse bool
	// Drain is for how long calls are still taken after the context of Run is done.
	Drain time.Duration
}

// Server is a limiter's gRPC socket.
type Server struct {
	grpc   *grpc.Server
	health *healthEndpoint
	drain  time.Duration
}

// NewServer returns a Server, to be started with Run.
func NewServer(o Options) *Server {
	recovered := recovery.WithRecoveryHandlerContext(func(_ context.Context, p any) error {
		o.Log.Error("a call panicked", "panic", p, "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "internal error")
	})
	settings := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: aliveAfter, Timeout: aliveWithin, MaxConnectionAge: maxAge, MaxConnectionAgeGrace: maxAgeGrace,
		}),
		grpc.ChainUnaryInterceptor(recovery.UnaryServerInterceptor(recovered)),
		grpc.ChainStreamInterceptor(recovery.StreamServerInterceptor(recovered)),
	}
	if o.Credentials != nil {
		settings = append(settings, grpc.Creds(o.Credentials))
	}
	s := &Server{grpc: grpc.NewServer(settings...), health: newHealthEndpoint(o.Ready), drain: o.Drain}
	ratelimitv3.RegisterRateLimitServiceServer(s.grpc, newRateLimitEndpoint(&o))
	authv3.RegisterAuthorizationServer(s.grpc, newAuthEndpoint(&o))
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// Run serves on listener, which it closes, until ctx is done; then it is healthy no more, takes calls for the time of
// Drain, and lets those under way finish. The error is nil after a clean end. A Server runs once.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	following, unfollow := context.WithCancel(context.Background())
	var follower sync.WaitGroup
	follower.Go(func() { s.health.follow(following) })
	defer follower.Wait()
	defer unfollow()

	failed := make(chan error, 1)
	go func() { failed <- s.grpc.Serve(listener) }()
	cause := socket.Drain(ctx, s.drain, s.health.Shutdown, failed)
	if cause != nil {
		cause = fmt.Errorf("serve gRPC on %s: %w", listener.Addr(), cause)
	}
	return errors.Join(cause, s.stop())
}

// stop takes no more calls and waits for those under way, within socket.StopTimeout.
func (s *Server) stop() error {
	s.health.end()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	timer := time.NewTimer(socket.StopTimeout)
	defer timer.Stop()
	select {
	case <-stopped:
		return nil
	case <-timer.C:
		s.grpc.Stop()
		<-stopped
		return fmt.Errorf("gRPC calls were cut off after %v", socket.StopTimeout)
	}
}

// unavailable is what a call fails with that err, from the engine, left without a decision. It is never an answer of
// Envoy's code UNKNOWN, which lets traffic pass: what becomes of the request is for Envoy's failure mode to say.
func unavailable(ctx context.Context, err error) error {
	if gone := ctx.Err(); gone != nil {
		return status.FromContextError(gone).Err()
	}
	return status.Error(codes.Unavailable, reply.Unavailable(err).Detail)
}

func observe(o Observer, began time.Time) {
	if o != nil {
		o.Observe(time.Since(began).Seconds())
	}
}
