package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/credentials"

	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/limiter/server/address"
	"github.com/weir-dev/weir/limiter/server/envoy"
)

// proxyProtocolTimeout is how long a load balancer can take to send the PROXY protocol header.
const proxyProtocolTimeout = 5 * time.Second

// socketFlags configure the listeners of a limiter, the proxies that it trusts, and its responses.
type socketFlags struct {
	listen string
	grpc   string
	ops    string
	drain  time.Duration

	style            string
	trustedProxies   []string
	clientHeader     string
	claimsHeader     string
	balancers        []string
	httpTLS          flags.ServerTLS
	grpcTLS          flags.ServerTLS
	transport        string
	reflection       bool
	defaultDomain    string
	refunds          string
	unitMultiplier   bool
	envoyErrorAnswer bool

	throttle    throttleFlags
	decisionLog flags.DecisionLog
	tracing     flags.Tracing
}

func (f *socketFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", ":8080", "address to listen on for POST /v1/check and /v1/auth/{domain}")
	flags.StringVar(&f.grpc, "grpc-listen", ":8081",
		"address to listen on for the Envoy rate limit service (RLS) and ext_authz over gRPC; empty disables it")
	flags.StringVar(&f.ops, "ops-listen", ":9090", "address to listen on for /metrics, /healthz and /readyz")
	flags.DurationVar(&f.drain, "drain", 0,
		"how long to keep serving, not ready, after SIGTERM; use 5s behind a Service or load balancer")
	flags.StringVar(&f.style, "response-headers", string(reply.RateLimitHeaders),
		"rate-limit headers of responses: RateLimit (RateLimit, RateLimit-Policy), XRateLimit or GitHub (both X-RateLimit-*), or None")
	flags.StringSliceVar(&f.trustedProxies, "trusted-proxies", nil,
		"networks and addresses of proxies that are trusted to report client addresses, for example 10.0.0.0/8; if empty, the\n"+
			"client of /v1/auth is the last address in the header, and the client of ext_authz is the source address that Envoy reports")
	flags.StringVar(&f.clientHeader, "client-address-header", string(address.XForwardedFor),
		"header in which proxies report the client address: X-Forwarded-For or Forwarded; the other header is ignored")
	flags.StringVar(&f.claimsHeader, "claims-header", "",
		"header in which proxies send the claims of a verified token, as JSON or base64; empty disables it")
	flags.StringSliceVar(&f.balancers, "proxy-protocol-from", nil,
		"networks and addresses of load balancers that must use the PROXY protocol on --listen; empty disables it")
	f.httpTLS.Add(flags, "http", "--listen")
	f.grpcTLS.Add(flags, "grpc", "--grpc-listen")
	flags.StringVar(&f.transport, "grpc-transport", string(envoy.FastTransport),
		"what serves --grpc-listen: fast (HTTP/2 of Weir for unary calls) or standard (the server of grpc-go, with Watch of the health\n"+
			"service, at several times the CPU)")
	flags.BoolVar(&f.reflection, "grpc-reflection", false,
		"serve the reflection service on --grpc-listen, for tools such as grpcurl; only with --grpc-transport=standard")
	flags.StringVar(&f.defaultDomain, "grpc-default-domain", "",
		"domain of ext_authz requests without the context extension domain; if empty, only the policies for all domains apply to them")
	flags.StringVar(&f.refunds, "grpc-refunds", "",
		"whether callers of --grpc-listen can refund units: Allowed or Forbidden; empty allows it only with --grpc-client-names")
	flags.BoolVar(&f.unitMultiplier, "envoy-unit-multiplier", false,
		"report windows such as 15 minutes to Envoy as a multiple of a unit; an older Envoy reads them as one unit")
	flags.BoolVar(&f.envoyErrorAnswer, "envoy-error-response", false,
		"respond with error_response to ext_authz calls that cannot be decided; an older Envoy treats it as a denial")
	f.throttle.add(flags)
	f.decisionLog.Add(flags)
	f.tracing.Add(flags)
}

// listeners opens --listen, --grpc-listen (nil if empty), --ops-listen and --throttle-listen (nil if empty).
func (f *socketFlags) listeners(ctx context.Context) ([4]net.Listener, error) {
	var opened [4]net.Listener
	for i, socket := range [...]struct {
		flag, address string
		optional      bool
	}{
		{"--listen", f.listen, false}, {"--grpc-listen", f.grpc, true}, {"--ops-listen", f.ops, false}, {"--throttle-listen", f.throttle.listen, true},
	} {
		if socket.address == "" && socket.optional {
			continue
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", socket.address)
		if err != nil {
			err = fmt.Errorf("%w; set another address with %s", err, socket.flag)
			for _, other := range opened[:i] {
				if other != nil {
					err = errors.Join(err, other.Close())
				}
			}
			return opened, err
		}
		opened[i] = listener
	}
	return opened, nil
}

// endpoints are the endpoints of a limiter, as the flags configure them.
type endpoints struct {
	flags       *socketFlags
	style       reply.Style
	clients     *address.Trusted
	balancers   *address.Networks
	httpTLS     *tls.Config                      // nil without TLS
	credentials credentials.TransportCredentials // nil without TLS
	transport   envoy.Transport
	refunds     bool              // of callers of --grpc-listen
	throttle    *throttleEndpoint // nil if disabled
}

// maxDomain is the maximum length of a domain in bytes, as in every request.
const maxDomain = 253

// endpoints parses and validates the flags.
func (f *socketFlags) endpoints() (endpoints, error) {
	if f.drain < 0 {
		return endpoints{}, fmt.Errorf("--drain %v is invalid: must not be negative", f.drain)
	}
	if f.claimsHeader != "" && !httpguts.ValidHeaderFieldName(f.claimsHeader) {
		return endpoints{}, fmt.Errorf("--claims-header: %q is not a valid header name", f.claimsHeader)
	}
	if len(f.defaultDomain) > maxDomain {
		return endpoints{}, fmt.Errorf("--grpc-default-domain is longer than %d bytes", maxDomain)
	}
	style, err := reply.ParseStyle(f.style)
	if err != nil {
		return endpoints{}, fmt.Errorf("--response-headers: %w", err)
	}
	field, err := address.ParseField(f.clientHeader)
	if err != nil {
		return endpoints{}, fmt.Errorf("--client-address-header: %w", err)
	}
	proxies, err := address.ParseNetworks(f.trustedProxies)
	if err != nil {
		return endpoints{}, fmt.Errorf("--trusted-proxies: %w", err)
	}
	balancers, err := address.ParseNetworks(f.balancers)
	if err != nil {
		return endpoints{}, fmt.Errorf("--proxy-protocol-from: %w", err)
	}
	httpTLS, err := f.httpTLS.Config(f.listen)
	if err != nil {
		return endpoints{}, err
	}
	secured, err := f.credentials()
	if err != nil {
		return endpoints{}, err
	}
	transport, err := f.grpcTransport()
	if err != nil {
		return endpoints{}, err
	}
	refunds, err := f.allowsRefunds()
	if err != nil {
		return endpoints{}, err
	}
	throttle, err := f.throttle.endpoint()
	if err != nil {
		return endpoints{}, err
	}
	return endpoints{
		flags: f, style: style, clients: address.NewTrusted(field, proxies), balancers: balancers,
		httpTLS: httpTLS, credentials: secured, transport: transport, refunds: refunds, throttle: throttle,
	}, nil
}

// withProxyProtocol returns listener with the PROXY protocol for the load balancers, if there are any.
func (d *endpoints) withProxyProtocol(listener net.Listener) net.Listener {
	if d.balancers.Empty() {
		return listener
	}
	return address.ProxyProtocol(listener, d.balancers, proxyProtocolTimeout)
}

// http returns the handler for --listen.
func (d *endpoints) http(p *process, metrics *server.Metrics) http.Handler {
	return server.NewHandler(server.Options{
		Engine: p.engine, Style: d.style, Metrics: metrics, Log: p.log, Gate: p.gate, Clients: d.clients, ClaimsHeader: d.flags.claimsHeader,
		Tracer: p.traces.Tracer,
	})
}

// grpc returns the server for --grpc-listen.
func (d *endpoints) grpc(p *process, metrics *server.Metrics, readiness *server.Readiness) *envoy.Server {
	o := envoy.Options{
		Engine: p.engine, Style: d.style, Log: p.log, Drain: p.drain, Credentials: d.credentials,
		Ready: func() error {
			_, err := readiness.Revision()
			return err
		},
		Tracer:           p.traces.Tracer,
		RateLimitSeconds: metrics.Endpoint("rls"), ExtAuthzSeconds: metrics.Endpoint("ext_authz"),
		RateLimitRequests: metrics.GRPCRequests("rls"), ExtAuthzRequests: metrics.GRPCRequests("ext_authz"),
		RateLimitFailures: metrics.Failures("rls"), ExtAuthzFailures: metrics.Failures("ext_authz"),
		RateLimitGate: p.gate.Endpoint(metrics.Shed("rls")), ExtAuthzGate: p.gate.Endpoint(metrics.Shed("ext_authz")),
		ClientIP: func(peer netip.Addr, headers map[string]string) netip.Addr {
			named := http.Header{}
			if value, given := headers[strings.ToLower(string(d.clients.Field()))]; given {
				named[string(d.clients.Field())] = []string{value}
			}
			return d.clients.ClientOfSource(peer, named)
		},
		Transport: d.transport, Reflection: d.flags.reflection,
		DefaultDomain: d.flags.defaultDomain, Refunds: d.refunds, UnitMultiplier: d.flags.unitMultiplier, ErrorResponse: d.flags.envoyErrorAnswer,
	}
	if p.service != nil {
		p.service.configure(&o)
	}
	return envoy.NewServer(o)
}

// credentials returns the credentials of --grpc-listen, nil without TLS.
func (f *socketFlags) credentials() (credentials.TransportCredentials, error) {
	config, err := f.grpcTLS.Config(f.grpc)
	if config == nil || err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

// grpcTransport returns what serves --grpc-listen.
func (f *socketFlags) grpcTransport() (envoy.Transport, error) {
	transport, err := envoy.ParseTransport(f.transport)
	switch {
	case err != nil:
		return "", fmt.Errorf("--grpc-transport %w", err)
	case f.reflection && transport != envoy.StandardTransport:
		return "", fmt.Errorf("--grpc-reflection needs --grpc-transport=%s", envoy.StandardTransport)
	}
	return transport, nil
}

// The values of --grpc-refunds.
const (
	refundsAllowed   = "Allowed"
	refundsForbidden = "Forbidden"
)

// allowsRefunds reports whether callers of --grpc-listen can refund units. By default, only callers can whose names are known.
func (f *socketFlags) allowsRefunds() (bool, error) {
	switch f.refunds {
	case "":
		return len(f.grpcTLS.ClientNames) > 0, nil
	case refundsAllowed, refundsForbidden:
		return f.refunds == refundsAllowed, nil
	default:
		return false, fmt.Errorf("--grpc-refunds %q is invalid: must be %s or %s", f.refunds, refundsAllowed, refundsForbidden)
	}
}
