package middleware

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// HTTPOption changes what of a request is told to the Decider.
type HTTPOption func(*requests)

// ClientIP is where the client's address is read from; the zero Addr is "unknown". Without it that is the peer of the
// connection, which no client can forge. Behind proxies use [ForwardedFor].
func ClientIP(f func(*http.Request) netip.Addr) HTTPOption {
	return func(x *requests) { x.clientIP = f }
}

// Claims are those of the caller's token, which something before this middleware has verified and put into the request's
// context, say.
func Claims(f func(*http.Request) map[string]any) HTTPOption {
	return func(x *requests) { x.claims = f }
}

// Cost is how often a request counts, 1 unless given. At 0 it passes without being asked about.
func Cost(f func(*http.Request) int64) HTTPOption {
	return func(x *requests) { x.cost = f }
}

// OnlyHeaders names the request headers that the Decider is told. Without it that is all of them, cookies and credentials
// included: name them when it is a [Remote], or when every allocation counts. Policies see no others.
func OnlyHeaders(names ...string) HTTPOption {
	return func(x *requests) {
		for _, name := range names {
			x.only = append(x.only, headerName{http.CanonicalHeaderKey(name), strings.ToLower(name)})
		}
	}
}

// Describe is called last and may change the check: another domain, descriptors, an override of the limit.
func Describe(f func(*http.Request, *engine.Check)) HTTPOption {
	return func(x *requests) { x.describe = f }
}

// HTTP returns middleware that lets requests through g. Responses carry the rate-limit headers; requests over a limit are
// answered with 429 and a problem document (RFC 9457), and the next handler does not see them. The path is that of the
// request's URL: middleware behind http.StripPrefix sees what that left.
func HTTP(g *Gate, options ...HTTPOption) func(next http.Handler) http.Handler {
	x := &requests{
		clientIP: peerIP,
		claims:   func(*http.Request) map[string]any { return nil },
		cost:     func(*http.Request) int64 { return 1 },
		describe: func(*http.Request, *engine.Check) {},
	}
	for _, option := range options {
		option(x)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			check := x.check(r)
			if err := g.Enter(r.Context(), &check, w.Header()); err != nil {
				refuse(w, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// refuse answers a request that err keeps from being served. Of a client that is gone nobody reads it; but a deadline may
// have ended the context, and a handler that wrote nothing would have said 200.
func refuse(w http.ResponseWriter, err error) {
	if refusal, ok := errors.AsType[*RefusalError](err); ok {
		refusal.Problem.Write(w)
		return
	}
	reply.NewProblem(http.StatusServiceUnavailable, "", "the request ended before it was its turn").Write(w)
}

// requests reads from requests what the Decider is told.
type requests struct {
	clientIP func(*http.Request) netip.Addr
	claims   func(*http.Request) map[string]any
	cost     func(*http.Request) int64
	describe func(*http.Request, *engine.Check)
	only     []headerName // nil for all
}

// headerName is a header's name as net/http has it, and as rules do.
type headerName struct{ canonical, lower string }

func (x *requests) check(r *http.Request) engine.Check {
	c := engine.Check{
		Cost: x.cost(r),
		Request: rules.Request{
			Method:   r.Method,
			Host:     rules.NormalHost(r.Host),
			Path:     rules.NormalPath(r.URL.EscapedPath()),
			Headers:  x.headers(r.Header),
			ClientIP: x.clientIP(r),
			Claims:   x.claims(r),
		},
	}
	if r.URL.RawQuery != "" {
		c.Request.Query = r.URL.Query()
	}
	x.describe(r, &c)
	return c
}

func (x *requests) headers(h http.Header) map[string]string {
	if x.only == nil {
		headers := make(map[string]string, len(h))
		for name, values := range h {
			lower := strings.ToLower(name)
			headers[lower] = rules.JoinHeader(lower, values)
		}
		return headers
	}
	headers := make(map[string]string, len(x.only))
	for _, name := range x.only {
		if values := h[name.canonical]; len(values) > 0 {
			headers[name.lower] = rules.JoinHeader(name.lower, values)
		}
	}
	return headers
}
