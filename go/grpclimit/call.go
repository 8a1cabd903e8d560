package grpclimit

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// Option changes what is passed from a call to the Decider, and when. An option with a nil function changes nothing.
type Option func(*calls)

// ClientIP sets the function that returns the client's address; the zero Addr means unknown. The default is the peer address of the
// connection, which no client can forge.
func ClientIP(f func(context.Context) netip.Addr) Option {
	return func(x *calls) {
		if f != nil {
			x.clientIP = f
		}
	}
}

// Claims sets the function that returns the claims of the caller's token, which an earlier interceptor must have verified.
func Claims(f func(context.Context) map[string]any) Option { return func(x *calls) { x.claims = f } }

// Cost sets the function that returns how many times a call counts; the default is 1. A call of cost 0 is served without a decision. The
// message is the request of a unary call, nil at the start of a stream, and with [EachMessage] a message of the stream.
func Cost(f func(ctx context.Context, fullMethod string, message any) int64) Option {
	return func(x *calls) {
		if f != nil {
			x.cost = f
		}
	}
}

// OnlyHeaders sets the metadata that is passed to the Decider. By default all metadata is passed, including credentials. With a
// httplimit.Remote, name the metadata that policies need.
func OnlyHeaders(names ...string) Option {
	return func(x *calls) {
		for _, name := range names {
			x.only = append(x.only, strings.ToLower(name))
		}
	}
}

// Describe sets a function that may change the check before it is decided: the domain, descriptors, an override of the limit.
func Describe(f func(context.Context, *httplimit.Check)) Option {
	return func(x *calls) { x.describe = f }
}

// Key sets the function that returns the identifier of the caller, which an earlier interceptor must have verified, for example from the context.
// Policies count by it as the claim "sub": identifier: {claim: sub}. An empty text means that the call has no identifier.
func Key(f func(context.Context) string) Option { return func(x *calls) { x.key = f } }

// Skip sets the function that selects calls and streams which are served without a decision, for example health checks.
func Skip(f func(ctx context.Context, fullMethod string) bool) Option {
	return func(x *calls) { x.skip = f }
}

// EachMessage charges a stream for every message that it receives. The charge at the start of the stream covers the first message. The
// first message over a limit ends the stream: RecvMsg returns the status, which the client gets when the handler returns it, as handlers
// do. The rate-limit fields are in the trailer.
func EachMessage() Option { return func(x *calls) { x.eachMessage = true } }

// ChargeLater lets handlers call [httplimit.Charge] and [httplimit.Peek] with the context of the call or stream, for a cost that is known only after the
// decision, such as that of the messages that a server sends.
func ChargeLater() Option { return func(x *calls) { x.chargeLater = true } }

// calls builds checks from calls.
type calls struct {
	clientIP    func(context.Context) netip.Addr
	claims      func(context.Context) map[string]any
	key         func(context.Context) string
	skip        func(context.Context, string) bool
	cost        func(context.Context, string, any) int64
	describe    func(context.Context, *httplimit.Check)
	only        []string // nil for all
	eachMessage bool
	chargeLater bool
}

func newCalls(options []Option) *calls {
	x := &calls{
		clientIP: peerIP,
		cost:     func(context.Context, string, any) int64 { return 1 },
	}
	for _, option := range options {
		if option != nil {
			option(x)
		}
	}
	return x
}

// check returns the check of a call or message. It warns of claims of types that no policy can read.
func (x *calls) check(ctx context.Context, g *httplimit.Gate, fullMethod string, message any) httplimit.Check {
	var claims map[string]any
	if x.claims != nil {
		var err error
		if claims, err = rules.NativeClaims(x.claims(ctx)); err != nil {
			g.Warn(ctx, "claims of a call cannot be read", err)
		}
	}
	if x.key != nil {
		claims = rules.WithSubject(claims, x.key(ctx))
	}
	md, _ := metadata.FromIncomingContext(ctx)
	c := httplimit.Check{
		Cost: x.cost(ctx, fullMethod, message),
		Request: rules.Request{
			Method:   http.MethodPost,
			Path:     reading.NormalPath(fullMethod),
			ClientIP: x.clientIP(ctx),
			Claims:   claims,
		},
	}
	c.Request.Headers, c.Request.RepeatedHeaders = x.headers(md)
	if authority := md[":authority"]; len(authority) > 0 {
		c.Request.Host = rules.NormalHost(authority[0])
	}
	if x.describe != nil {
		x.describe(ctx, &c)
	}
	if x.skips(ctx, fullMethod) {
		c.Cost = 0 // is not decided
	}
	return c
}

func (x *calls) skips(ctx context.Context, fullMethod string) bool {
	return x.skip != nil && x.skip(ctx, fullMethod)
}

func (x *calls) headers(md metadata.MD) (headers map[string]string, repeated []string) {
	passed := make(map[string][]string, len(md))
	if x.only == nil {
		for name, values := range md {
			if !strings.HasPrefix(name, ":") && !strings.HasSuffix(name, "-bin") {
				passed[name] = values
			}
		}
		return rules.NormalHeaders(passed)
	}
	for _, name := range x.only {
		if values := md[name]; len(values) > 0 {
			passed[name] = values
		}
	}
	return rules.NormalHeaders(passed)
}

// peerIP is the peer address of the connection. It is invalid on a Unix socket, which has no address.
func peerIP(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	addr, _ := clientip.Parse(p.Addr.String())
	return addr
}
