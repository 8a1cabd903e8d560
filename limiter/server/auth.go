package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server/address"
	"github.com/weir-dev/weir/limiter/tracing"
	"github.com/weir-dev/weir/limiter/wait"
)

// authEndpoint serves /v1/auth/{domain}, which a proxy calls before it forwards a request. The headers of the call describe the
// original request.
type authEndpoint struct {
	engine   *engine.Engine
	style    reply.Style
	log      *slog.Logger
	seconds  prometheus.Observer
	gate     *overload.Endpoint
	failures *Failures
	requests *HTTPRequests
	tracer   *tracing.Tracer
	clients  *address.Trusted
	claims   string // name of the claims header as in http.Header, or empty
	maxDelay time.Duration
	ignored  sync.Once // guards the log line about a caller that is not trusted
}

// decisionHeader is on every denial. A policy can set a status, a content type and headers that a proxy's own error can have, so a proxy that
// allows requests while Weir is unavailable needs a header that only a decision has.
const decisionHeader = "X-Weir-Decision"

func newAuthEndpoint(o Options) *authEndpoint {
	clients := o.Clients
	if clients == nil {
		clients = address.NewTrusted(address.XForwardedFor, &address.Networks{})
	}
	return &authEndpoint{
		engine: o.Engine, style: o.Style, log: o.Log, seconds: o.Metrics.Endpoint("auth"), gate: o.Gate.Endpoint(o.Metrics.Shed("auth")),
		failures: o.Metrics.Failures("auth"), requests: o.Metrics.HTTPRequests("auth"), tracer: o.Tracer, clients: clients,
		claims: http.CanonicalHeaderKey(o.ClaimsHeader), maxDelay: cmp.Or(o.MaxDelay, defaultMaxDelay),
	}
}

func (d *authEndpoint) serveDomain(w http.ResponseWriter, r *http.Request, domain string) {
	d.requests.Count(d.serve(w, r, domain))
}

// serve returns the status of the response. It does not read the body of r: it belongs to the client, if the proxy sends it at all.
func (d *authEndpoint) serve(w http.ResponseWriter, r *http.Request, domain string) (status int) {
	began := time.Now()
	denied, bad := parseDenyStatus(r.URL.RawQuery)
	if bad != nil {
		d.failures.Invalid()
		return reject(w, bad)
	}
	check, bad := d.read(r, domain)
	if bad != nil {
		d.failures.Invalid()
		return reject(w, bad)
	}
	if !d.gate.Enter() {
		return rejectOverloaded(w)
	}
	ctx, span := d.tracer.HTTP(r, "/v1/auth/{domain}", "auth", began)
	answer, err := decide(ctx, d.engine, &check, d.gate) // a request that waits for its turn below takes no CPU
	span.Observe(d.seconds, time.Since(began).Seconds())
	if err != nil {
		d.gate.Failed(err)
		d.failures.Unavailable(err)
		reject(w, reply.Unavailable(err))
		status = statusWithout(err)
		span.EndHTTP(status)
		return status
	}
	if answer.Delay > 0 && !wait.Sleep(r.Context(), answer.Delay) {
		// A caller that has only stopped sending reads this. Without it, the status would be 200, which admits the request before its turn.
		w.WriteHeader(http.StatusServiceUnavailable)
		span.End("canceled")
		return statusClosed // its units stay spent
	}
	status = d.write(w, &answer, denied)
	span.EndHTTP(status)
	return status
}

// read returns the check for the original request.
func (d *authEndpoint) read(r *http.Request, domain string) (engine.Check, *reply.Problem) {
	if len(domain) > maxDomain {
		return engine.Check{}, badField("domain", fmt.Sprintf("is longer than %d bytes", maxDomain))
	}
	request, bad := forwardedRequest(r)
	if bad != nil {
		return engine.Check{}, bad
	}
	if request.Claims, bad = headerClaims(r.Header, d.claims); bad != nil {
		return engine.Check{}, bad
	}
	request.Domain = domain
	request.ClientIP = d.client(r)
	return engine.Check{Request: request, Endpoint: "auth", Cost: 1, MaxDelay: d.maxDelay}, nil
}

// client returns the address of the client. The first time that a caller names a client and is not a trusted proxy, it logs a
// warning: all clients of a proxy that is missing from the list share one counter.
func (d *authEndpoint) client(r *http.Request) netip.Addr {
	peer, _ := clientip.Parse(r.RemoteAddr) // the zero Addr if the connection is not TCP
	if d.clients.Ignores(peer, r.Header) {
		d.ignored.Do(func() {
			d.log.Warn("a caller of /v1/auth is not a trusted proxy: its client address header is ignored and its requests are "+
				"counted by the address of the caller; add proxies to --trusted-proxies",
				"caller", peer, "header", d.clients.Field())
		})
	}
	return d.clients.Client(peer, r.Header)
}

// write sends an answer, and returns the status. The argument denied is that of a denial.
func (d *authEndpoint) write(w http.ResponseWriter, answer *engine.Answer, denied int) (status int) {
	if err := d.style.SetHeaders(w.Header(), answer, time.Now()); err != nil {
		d.log.Warn("a response has no rate-limit headers, because they cannot be formatted", "error", err)
	}
	if answer.Allowed {
		w.WriteHeader(http.StatusOK)
		return http.StatusOK
	}
	w.Header().Set(decisionHeader, "denied")
	response := reply.NewDenial(answer)
	response.Status = cmp.Or(denied, response.Status)
	response.Write(w)
	return response.Status
}

// parseDenyStatus reads the query parameters of the endpoint: ?deny=403 is for proxies that treat all statuses except 401 and 403 as a server
// error. It returns 0 for the status that the policy sets, by default 429.
func parseDenyStatus(query string) (int, *reply.Problem) {
	if query == "" {
		return 0, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, badField("query", "is malformed")
	}
	for name := range values {
		if name != "deny" {
			return 0, badField(clip(name), "is not a parameter of /v1/auth; the only parameter is deny")
		}
	}
	switch given := values["deny"]; {
	case len(given) > 1:
		return 0, badField("deny", "is present more than once")
	case given[0] == "429":
		return 0, nil
	case given[0] == "403":
		return http.StatusForbidden, nil
	case given[0] == "401":
		return http.StatusUnauthorized, nil
	default:
		return 0, badField("deny", "must be 401, 403 or 429, not "+clip(given[0]))
	}
}
