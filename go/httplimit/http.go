package httplimit

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// HTTPOption changes what Middleware passes from a request to the Decider. An option with a nil function changes nothing.
type HTTPOption func(*requests)

// ClientIP sets the function that returns the client's address; the zero Addr means unknown. The default is the peer address of the
// connection, which no client can forge. Behind proxies, use [ForwardedFor].
func ClientIP(f func(*http.Request) netip.Addr) HTTPOption {
	return func(x *requests) {
		if f != nil {
			x.clientIP = f
		}
	}
}

// Claims sets the function that returns the claims of the caller's token. An earlier handler must have verified the token; it can,
// for example, put the claims into the request's context.
func Claims(f func(*http.Request) map[string]any) HTTPOption {
	return func(x *requests) { x.claims = f }
}

// Cost sets the function that returns how many times a request counts; the default is 1. A request of cost 0 is served without a
// decision.
func Cost(f func(*http.Request) int64) HTTPOption {
	return func(x *requests) {
		if f != nil {
			x.cost = f
		}
	}
}

// OnlyHeaders sets the request headers that are passed to the Decider; policies see no other headers. By default all headers are
// passed, including cookies and credentials. Use it with a [Remote]. An engine in this process reads only the headers that a policy needs.
func OnlyHeaders(names ...string) HTTPOption {
	return func(x *requests) {
		for _, name := range names {
			x.only = append(x.only, headerName{http.CanonicalHeaderKey(name), strings.ToLower(name)})
		}
	}
}

// Describe sets a function that may change the check before it is decided: the domain, descriptors, an override of the limit.
func Describe(f func(*http.Request, *Check)) HTTPOption {
	return func(x *requests) { x.describe = f }
}

// OnDenied sets the function that writes the response to a request that is not served, in place of the one of the policy or of this package. The
// problem of the refusal has the status and the text that would be written; w has the rate-limit headers and, after a denial, Retry-After.
func OnDenied(f func(w http.ResponseWriter, r *http.Request, refusal *RefusalError)) HTTPOption {
	return func(x *requests) {
		if f != nil {
			x.onDenied = f
		}
	}
}

// Key sets the function that returns the identifier of the caller, which an earlier handler must have verified, for example from the context of the
// request. Policies count by it as the claim "sub": identifier: {claim: sub}. An empty text means that the request has no identifier.
func Key(f func(*http.Request) string) HTTPOption { return func(x *requests) { x.key = f } }

// Skip sets the function that selects requests which are served without a decision, and without rate-limit headers, for example health checks.
func Skip(f func(*http.Request) bool) HTTPOption { return func(x *requests) { x.skip = f } }

// ChargeLater lets handlers call [Charge] and [Peek] with the context of the request.
func ChargeLater() HTTPOption { return func(x *requests) { x.chargeLater = true } }

// Middleware returns middleware that serves the requests that g allows. Responses carry the rate-limit headers. A request over a limit gets the
// response that the policy sets, by default status 429 and a problem document (RFC 9457), and the next handler is not called. The path
// is that of the request's URL: behind http.StripPrefix, it is the path without the prefix. If next is nil, it is http.DefaultServeMux, as in http.Server.
func Middleware(g *Gate, options ...HTTPOption) func(next http.Handler) http.Handler {
	x := &requests{
		clientIP: peerIP,
		cost:     func(*http.Request) int64 { return 1 },
		onDenied: refuse,
	}
	for _, option := range options {
		if option != nil {
			option(x)
		}
	}
	g = g.orRefusing()
	x.lines = g.readsLines() && x.only == nil && x.describe == nil
	return func(next http.Handler) http.Handler {
		if next == nil {
			next = http.DefaultServeMux
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r == nil || r.URL == nil {
				refuse(w, r, &RefusalError{Problem: problemOf(errNoRequest), cause: errNoRequest})
				return
			}
			skips := x.skip != nil && x.skip(r)
			if skips && !x.chargeLater {
				next.ServeHTTP(w, r)
				return
			}
			check := x.newCheck()
			if err := x.read(r, check); err != nil {
				g.Warn(r.Context(), "claims of a request cannot be read", err)
			}
			if skips {
				check.Cost = 0 // is not decided
			}
			if err := g.Enter(r.Context(), check, w.Header()); err != nil {
				x.onDenied(w, r, asRefusal(err))
				return
			}
			if x.chargeLater {
				check.Request.ReadHeaders() // the handler can change those of r
				r = r.WithContext(g.Chargeable(r.Context(), check))
			}
			x.release(check)
			next.ServeHTTP(w, r)
		})
	}
}

// asRefusal returns the refusal of a request that is not served because of err. If the request's context has ended, the client has
// usually disconnected; but a deadline may have ended it too, and a handler that writes nothing responds with status 200.
func asRefusal(err error) *RefusalError {
	if refusal, ok := errors.AsType[*RefusalError](err); ok {
		return refusal
	}
	problem := reply.NewProblem(http.StatusServiceUnavailable, "", "the deadline of the request passed before its turn")
	return &RefusalError{Problem: problem, cause: err}
}

// refuse writes the response that the policy sets to a denied request, or else the problem.
func refuse(w http.ResponseWriter, _ *http.Request, refusal *RefusalError) {
	if refusal.cause != nil {
		refusal.Problem.Write(w)
		return
	}
	d := refusal.Denial()
	d.Write(w)
}

// requests builds checks from requests.
type requests struct {
	clientIP func(*http.Request) netip.Addr
	claims   func(*http.Request) map[string]any // can be nil, as all of these
	key      func(*http.Request) string
	skip     func(*http.Request) bool
	cost     func(*http.Request) int64
	describe func(*http.Request, *Check)
	onDenied func(http.ResponseWriter, *http.Request, *RefusalError)
	only     []headerName // nil for all
	lines    bool         // the Decider reads those headers that it needs

	chargeLater bool
}

// headerName is a header's name as net/http writes it, and in lower case, as rules do.
type headerName struct{ canonical, lower string }

// checks are those that can be used again.
var checks = sync.Pool{New: func() any { return &Check{} }} //nolint:gochecknoglobals // memory that all of the program shares

// newCheck returns an empty check.
func (x *requests) newCheck() *Check {
	if !x.reuses() {
		return &Check{}
	}
	return checks.Get().(*Check) //nolint:forcetypeassert // all its values have this type
}

// release lets another request use c, unless functions of the program have seen it: they can keep it.
func (x *requests) release(c *Check) {
	if x.reuses() {
		*c = Check{}
		checks.Put(c)
	}
}

func (x *requests) reuses() bool { return x.lines && !x.chargeLater }

// read sets c, which is empty, to the check of a request. The error is about claims of types that no policy can read; the check is without them.
func (x *requests) read(r *http.Request, c *Check) error {
	var err error
	if x.claims != nil {
		c.Request.Claims, err = rules.NativeClaims(x.claims(r))
	}
	if x.key != nil {
		c.Request.Claims = rules.WithSubject(c.Request.Claims, x.key(r))
	}
	c.Cost = x.cost(r)
	c.Request.Method, c.Request.Host, c.Request.ClientIP = r.Method, rules.NormalHost(r.Host), x.clientIP(r)
	c.Request.SetTarget(r.URL.EscapedPath())
	if r.URL.RawQuery != "" {
		c.Request.SetQuery("?" + r.URL.RawQuery)
	}
	if x.lines {
		c.Request.HeaderLines = r.Header
	} else {
		c.Request.Headers, c.Request.RepeatedHeaders = x.headers(r.Header)
	}
	if x.describe != nil {
		x.describe(r, c)
	}
	return err
}

func (x *requests) headers(h http.Header) (headers map[string]string, repeated []string) {
	if x.only == nil {
		return rules.NormalHeaders(h)
	}
	only := make(map[string][]string, len(x.only))
	for _, name := range x.only {
		if values := h[name.canonical]; len(values) > 0 {
			only[name.lower] = values
		}
	}
	return rules.NormalHeaders(only)
}
