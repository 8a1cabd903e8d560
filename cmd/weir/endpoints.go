package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/credentials"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/limiter/server/address"
	"github.com/weir-dev/weir/limiter/server/envoy"
)

// proxyProtocolTimeout is how long a load balancer may take to say whose connection it is.
const proxyProtocolTimeout = 5 * time.Second

// socketFlags are where a process that answers requests listens, whom it believes there, and how it answers.
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
	certificate      string
	key              string
	clientAuthority  string
	unitMultiplier   bool
	envoyErrorAnswer bool

	throttle throttleFlags
}

func (f *socketFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", ":8080", "address for POST /v1/check and /v1/auth/{domain}")
	flags.StringVar(&f.grpc, "grpc-listen", ":8081", "address for Envoy's rate limit service and ext_authz, over gRPC; empty for none")
	flags.StringVar(&f.ops, "ops-listen", ":9090", "address for /metrics, /healthz and /readyz")
	flags.DurationVar(&f.drain, "drain", 0,
		"time to go on answering, not ready any more, after SIGTERM; behind a Service or load balancer 5s")
	flags.StringVar(&f.style, "response-headers", string(reply.RateLimitHeaders),
		"rate-limit headers of responses: RateLimit (RateLimit, RateLimit-Policy), XRateLimit or GitHub (both X-RateLimit-*), None")
	flags.StringSliceVar(&f.trustedProxies, "trusted-proxies", nil,
		"networks and addresses of the proxies that are believed about their clients' addresses, such as 10.0.0.0/8\n"+
			"(default: whoever asks is, about its direct client)")
	flags.StringVar(&f.clientHeader, "client-address-header", string(address.XForwardedFor),
		"where proxies name the client: X-Forwarded-For or Forwarded; the other one is never read")
	flags.StringVar(&f.claimsHeader, "claims-header", "",
		"header in which proxies hand on the claims of a token that they have verified, as JSON or in base64 (default: none)")
	flags.StringSliceVar(&f.balancers, "proxy-protocol-from", nil,
		"networks and addresses of load balancers that speak the PROXY protocol to --listen, and must (default: none)")
	flags.StringVar(&f.certificate, "grpc-cert", "", "PEM file of the certificate for --grpc-listen; read again for every connection (default: no TLS)")
	flags.StringVar(&f.key, "grpc-key", "", "PEM file of its key")
	flags.StringVar(&f.clientAuthority, "grpc-client-ca", "",
		"PEM file of the authorities whose certificates clients of --grpc-listen must show (default: none need to)")
	flags.BoolVar(&f.unitMultiplier, "envoy-unit-multiplier", false,
		"tell Envoy of windows such as 15 minutes as a multiple of a unit; older Envoys take it for one unit")
	flags.BoolVar(&f.envoyErrorAnswer, "envoy-error-response", false,
		"answer ext_authz calls without a decision with error_response; older Envoys take it for a denial")
	f.throttle.add(flags)
}

// listeners are those of --listen, --grpc-listen (nil for none), --ops-listen and --throttle-listen (nil for none).
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
			err = fmt.Errorf("%w; choose another address with %s", err, socket.flag)
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

// endpoints are how requests come in, whatever is counted behind them.
type endpoints struct {
	flags       *socketFlags
	style       reply.Style
	clients     *address.Trusted
	balancers   *address.Networks
	credentials credentials.TransportCredentials // nil: none
	throttle    *throttleEndpoint                // nil: none
}

// endpoints reads the flags that need reading.
func (f *socketFlags) endpoints() (endpoints, error) {
	if f.drain < 0 {
		return endpoints{}, fmt.Errorf("--drain %v is less than nothing", f.drain)
	}
	if f.claimsHeader != "" && !httpguts.ValidHeaderFieldName(f.claimsHeader) {
		return endpoints{}, fmt.Errorf("--claims-header: %q is no name of a header", f.claimsHeader)
	}
	style, err := reply.ParseStyle(f.style)
	if err != nil {
		return endpoints{}, fmt.Errorf("--headers: %w", err)
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
	secured, err := f.credentials()
	if err != nil {
		return endpoints{}, err
	}
	throttling, err := f.throttle.endpoint()
	if err != nil {
		return endpoints{}, err
	}
	return endpoints{
		flags: f, style: style, clients: address.NewTrusted(field, proxies), balancers: balancers, credentials: secured, throttle: throttling,
	}, nil
}

// balanced is the listener for load balancers that speak the PROXY protocol, if there are any.
func (d *endpoints) balanced(listener net.Listener) net.Listener {
	if d.balancers.Empty() {
		return listener
	}
	return address.ProxyProtocol(listener, d.balancers, proxyProtocolTimeout)
}

// http are the endpoints of --listen.
func (d *endpoints) http(p *process, metrics *server.Metrics) http.Handler {
	return server.NewHandler(server.Options{
		Engine: p.engine, Style: d.style, Metrics: metrics, Log: p.log, Clients: d.clients, ClaimsHeader: d.flags.claimsHeader,
	})
}

// grpc are the endpoints of --grpc-listen.
func (d *endpoints) grpc(p *process, metrics *server.Metrics, readiness *server.Readiness) *envoy.Server {
	return envoy.NewServer(envoy.Options{
		Engine: p.engine, Style: d.style, Log: p.log, Drain: p.drain, Credentials: d.credentials,
		Ready: func() error {
			_, err := readiness.Revision()
			return err
		},
		RateLimitSeconds: metrics.Endpoint("rls"), ExtAuthzSeconds: metrics.Endpoint("ext_authz"),
		ClientIP: func(peer netip.Addr, headers map[string]string) netip.Addr {
			named := http.Header{}
			if value, given := headers[strings.ToLower(string(d.clients.Field()))]; given {
				named[string(d.clients.Field())] = []string{value}
			}
			return d.clients.Client(peer, named)
		},
		UnitMultiplier: d.flags.unitMultiplier, ErrorResponse: d.flags.envoyErrorAnswer,
	})
}

// credentials are those of --grpc-cert, --grpc-key and --grpc-client-ca; nil without.
func (f *socketFlags) credentials() (credentials.TransportCredentials, error) {
	switch {
	case f.certificate == "" && f.key == "" && f.clientAuthority == "":
		return nil, nil //nolint:nilnil // no TLS is what was asked for
	case f.grpc == "":
		return nil, errors.New("--grpc-cert, --grpc-key and --grpc-client-ca are for --grpc-listen, which is empty")
	case f.certificate == "" || f.key == "":
		return nil, errors.New("--grpc-cert and --grpc-key go together, and --grpc-client-ca with both")
	}
	pair, err := openKeyPair(f.certificate, f.key)
	if err != nil {
		return nil, fmt.Errorf("--grpc-cert, --grpc-key: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.show}
	if f.clientAuthority != "" {
		text, err := os.ReadFile(f.clientAuthority)
		if err != nil {
			return nil, fmt.Errorf("--grpc-client-ca: %w", err)
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--grpc-client-ca: no certificate in %s", f.clientAuthority)
		}
	}
	return credentials.NewTLS(config), nil
}
