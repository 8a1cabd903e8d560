package grpclimit

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// Option changes what of a call is told to the Decider, and when.
type Option func(*calls)

// ClientIP is where the client's address is read from; the zero Addr is "unknown". Without it that is the peer of the
// connection, which no client can forge.
func ClientIP(f func(context.Context) netip.Addr) Option { return func(x *calls) { x.clientIP = f } }

// Claims are those of the caller's token, which an interceptor before this one has verified.
func Claims(f func(context.Context) map[string]any) Option { return func(x *calls) { x.claims = f } }

// Cost is how often a call counts, 1 unless given. At 0 it passes without being asked about. The message is the request of
// a unary call; nil at the start of a stream; with [EachMessage] a message of the stream.
func Cost(f func(ctx context.Context, fullMethod string, message any) int64) Option {
	return func(x *calls) { x.cost = f }
}

// OnlyHeaders names the metadata that the Decider is told. Without it that is all of it, credentials included: name what
// policies need when the Decider is a middleware.Remote.
func OnlyHeaders(names ...string) Option {
	return func(x *calls) {
		for _, name := range names {
			x.only = append(x.only, strings.ToLower(name))
		}
	}
}

// Describe is called last and may change the check: another domain, descriptors, an override of the limit.
func Describe(f func(context.Context, *engine.Check)) Option {
	return func(x *calls) { x.describe = f }
}

// EachMessage charges a stream for every message that it receives, not for its start alone: the start pays for the first
// message. The first that is over a limit ends the stream: RecvMsg returns the status that the client gets if the handler
// returns it, as handlers do, and the rate-limit fields are in the trailer.
func EachMessage() Option { return func(x *calls) { x.eachMessage = true } }

// calls reads from calls what the Decider is told.
type calls struct {
	clientIP    func(context.Context) netip.Addr
	claims      func(context.Context) map[string]any
	cost        func(context.Context, string, any) int64
	describe    func(context.Context, *engine.Check)
	only        []string // nil for all
	eachMessage bool
}

func newCalls(options []Option) *calls {
	x := &calls{
		clientIP: peerIP,
		claims:   func(context.Context) map[string]any { return nil },
		cost:     func(context.Context, string, any) int64 { return 1 },
		describe: func(context.Context, *engine.Check) {},
	}
	for _, option := range options {
		option(x)
	}
	return x
}

func (x *calls) check(ctx context.Context, fullMethod string, message any) engine.Check {
	md, _ := metadata.FromIncomingContext(ctx)
	c := engine.Check{
		Cost: x.cost(ctx, fullMethod, message),
		Request: rules.Request{
			Method:   http.MethodPost,
			Path:     rules.NormalPath(fullMethod),
			Headers:  x.headers(md),
			ClientIP: x.clientIP(ctx),
			Claims:   x.claims(ctx),
		},
	}
	if authority := md[":authority"]; len(authority) > 0 {
		c.Request.Host = rules.NormalHost(authority[0])
	}
	x.describe(ctx, &c)
	return c
}

func (x *calls) headers(md metadata.MD) map[string]string {
	if x.only == nil {
		headers := make(map[string]string, len(md))
		for name, values := range md {
			if strings.HasPrefix(name, ":") || strings.HasSuffix(name, "-bin") {
				continue
			}
			headers[name] = rules.JoinHeader(name, values)
		}
		return headers
	}
	headers := make(map[string]string, len(x.only))
	for _, name := range x.only {
		if values := md[name]; len(values) > 0 {
			headers[name] = rules.JoinHeader(name, values)
		}
	}
	return headers
}

// peerIP is the address at the other end of the connection; invalid where there is none, on a Unix socket say.
func peerIP(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return addr.Addr().Unmap().WithZone("")
}
