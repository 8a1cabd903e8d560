package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server/address"
)

// authEndpoint answers /v1/auth/{domain}: what a proxy asks before it passes a request on. The request that it asks for stands
// in the headers of its question.
type authEndpoint struct {
	engine   *engine.Engine
	style    reply.Style
	log      *slog.Logger
	seconds  prometheus.Observer
	clients  *address.Trusted
	claims   string // a header's name as in http.Header, or empty
	maxDelay time.Duration
	ignored  sync.Once // to tell of a caller that is not believed
}

func newAuthEndpoint(o Options) *authEndpoint {
	clients := o.Clients
	if clients == nil {
		clients = address.NewTrusted(address.XForwardedFor, &address.Networks{})
	}
	return &authEndpoint{
		engine: o.Engine, style: o.Style, log: o.Log, seconds: o.Metrics.Endpoint("auth"),
		clients: clients, claims: http.CanonicalHeaderKey(o.ClaimsHeader), maxDelay: cmp.Or(o.MaxDelay, defaultMaxDelay),
	}
}

// serve leaves the body of r unread: it is the client's, if the proxy sends one at all.
func (d *authEndpoint) serve(w http.ResponseWriter, r *http.Request, domain string) {
	began := time.Now()
	status, bad := denialStatus(r.URL.RawQuery)
	if bad != nil {
		bad.Write(w)
		return
	}
	check, bad := d.read(r, domain)
	if bad != nil {
		bad.Write(w)
		return
	}
	answer, err := d.engine.Check(r.Context(), &check)
	d.seconds.Observe(time.Since(began).Seconds())
	if err != nil {
		reply.Unavailable(err).Write(w)
		return
	}
	if answer.Delay > d.maxDelay {
		d.giveBack(r.Context(), &check)
		denyWait(&answer, d.maxDelay)
	}
	if err := holdBack(r.Context(), answer.Delay); err != nil {
		return // the caller is gone, and its units stay spent
	}
	d.write(w, &answer, status)
}

// read takes from a proxy's question the request that it asks for.
func (d *authEndpoint) read(r *http.Request, domain string) (engine.Check, *reply.Problem) {
	if len(domain) > maxDomain {
		return engine.Check{}, badField("domain", fmt.Sprintf("is longer than %d bytes", maxDomain))
	}
	request, bad := forwardedRequest(r)
	if bad != nil {
		return engine.Check{}, bad
	}
	if request.Claims, bad = claimsOf(r.Header, d.claims); bad != nil {
		return engine.Check{}, bad
	}
	request.Domain = domain
	request.ClientIP = d.client(r)
	return engine.Check{Request: request, Cost: 1}, nil
}

// client finds the client's address, and says once that it does not believe a caller: whoever forgets a proxy on the list
// sees all its clients counted as one.
func (d *authEndpoint) client(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // of another kind of socket nothing is known
	if d.clients.Ignores(peer.Addr(), r.Header) {
		d.ignored.Do(func() {
			d.log.Warn("a caller of /v1/auth names clients and is no trusted proxy: its requests are counted by its own address",
				"caller", peer.Addr(), "header", d.clients.Field())
		})
	}
	return d.clients.Client(peer.Addr(), r.Header)
}

// giveBack refunds a request that will not be served. That it cannot is no reason to serve it.
func (d *authEndpoint) giveBack(ctx context.Context, check *engine.Check) {
	if err := d.engine.Refund(context.WithoutCancel(ctx), []engine.Check{*check}); err != nil {
		d.log.Warn("a request that would wait too long was denied, and stays counted", "error", err)
	}
}

// denyWait makes a denial of an answer whose request would have to wait for longer than most. Once the time above it has
// passed, the same request is allowed and waits for most.
func denyWait(a *engine.Answer, most time.Duration) {
	a.Allowed, a.Delay = false, 0
	enforced := a.Results
	if i := slices.IndexFunc(enforced, func(r engine.Result) bool { return r.Rule.Shadow }); i >= 0 {
		enforced = enforced[:i]
	}
	for i := range enforced {
		if d := &enforced[i].Decision; d.Delay > most {
			d.Allowed, d.RetryAfter, d.Delay = false, d.Delay-most, 0
		}
	}
	slices.SortStableFunc(enforced, func(a, b engine.Result) int { return limiter.CompareStrictness(a.Decision, b.Decision) })
}

// holdBack returns after d, or earlier with ctx's error.
func holdBack(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (d *authEndpoint) write(w http.ResponseWriter, answer *engine.Answer, denied int) {
	if err := d.style.SetHeaders(w.Header(), answer, time.Now()); err != nil {
		d.log.Warn("a decision goes out without rate-limit headers", "error", err)
	}
	if answer.Allowed {
		w.WriteHeader(http.StatusOK)
		return
	}
	p := reply.Denied(answer)
	p.Status = denied
	p.Write(w)
}

// denialStatus reads the parameters of the endpoint: ?deny=403 for proxies that take 429 for a fault.
func denialStatus(query string) (int, *reply.Problem) {
	if query == "" {
		return http.StatusTooManyRequests, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, badField("query", "is not well-formed")
	}
	for name := range values {
		if name != "deny" {
			return 0, badField(clip(name), "is not a parameter of /v1/auth; there is deny")
		}
	}
	switch given := values["deny"]; {
	case len(given) > 1:
		return 0, badField("deny", "is given twice")
	case given[0] == "429":
		return http.StatusTooManyRequests, nil
	case given[0] == "403":
		return http.StatusForbidden, nil
	case given[0] == "401":
		return http.StatusUnauthorized, nil
	default:
		return 0, badField("deny", "must be 401, 403 or 429, not "+clip(given[0]))
	}
}
