package main

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/test/fixture"
)

// secured is a limiter with mutual TLS on both sockets.
type secured struct {
	url, grpc string
}

// serveSecured runs `weir serve` with the certificates in files. Both sockets accept clients whose certificate has the name.
func serveSecured(t *testing.T, files *fixture.TLSFiles, clientName string) secured {
	t.Helper()
	policies := t.TempDir()
	save(t, filepath.Join(policies, "policy.yaml"), tenantPolicy("1000"))
	tls := func(prefix, listen string) flags.ServerTLS {
		f := flags.ServerTLS{Prefix: prefix, Listen: listen, Certificate: files.ServerCert, Key: files.ServerKey, ClientCA: files.CA}
		if clientName != "" {
			f.ClientNames = []string{clientName}
		}
		return f
	}
	out := &Transcript{}
	launch(t, func(ctx context.Context) error {
		return runServe(ctx, serveFlags{policies: policies, counters: countersOf("weir:"), sockets: socketFlags{
			listen: "127.0.0.1:0", grpc: "127.0.0.1:0", ops: "127.0.0.1:0", style: "RateLimit", clientHeader: "X-Forwarded-For",
			httpTLS: tls("http", "--listen"), grpcTLS: tls("grpc", "--grpc-listen"),
		}}, out, out.Logger())
	})
	return secured{url: find(t, out, ` at (https://\S+)/v1/check`), grpc: find(t, out, `gRPC for Envoy at (\S+),`)}
}

// checkOver sends a check over a new connection.
func (s secured) checkOver(t *testing.T, config *tls.Config) (*http.Response, error) {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	response, err := client.Post(s.url+"/v1/check", "application/json", strings.NewReader(`{"domain":"shop","headers":{"x-tenant-id":"acme"}}`))
	if err != nil {
		return nil, err
	}
	return response, response.Body.Close()
}

// refundOver refunds a unit over a new connection.
func (s secured) refundOver(t *testing.T, config *tls.Config) codes.Code {
	t.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain: "shop", Descriptors: []*descriptorv3.RateLimitDescriptor{{
			Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}}, IsNegativeHits: true,
		}},
	})
	return status.Code(err)
}

func clientConfig(t *testing.T, files *fixture.TLSFiles) *tls.Config {
	t.Helper()
	config, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestServerTLS_AdmitsOnlyClientsWithACertificateAndAName(t *testing.T) {
	files := newFiles(t)
	known := clientConfig(t, files)
	anonymous := known.Clone()
	anonymous.Certificates = nil
	foreign := known.Clone()
	foreign.Certificates = clientConfig(t, newFiles(t)).Certificates

	every, named, other := serveSecured(t, files, ""), serveSecured(t, files, "client.weir.test"), serveSecured(t, files, "other.weir.test")
	for _, server := range []secured{every, named} {
		if r, err := server.checkOver(t, known); err != nil || r.StatusCode != http.StatusOK || r.ProtoMajor != 2 {
			t.Errorf("%+v, %v, want 200 over HTTP/2", r, err)
		}
		for name, config := range map[string]*tls.Config{"without a certificate": anonymous, "of another CA": foreign} {
			if r, err := server.checkOver(t, config); err == nil {
				t.Errorf("a client %s: %s", name, r.Status)
			}
			if got := server.refundOver(t, config); got != codes.Unavailable {
				t.Errorf("a gRPC client %s: %v", name, got)
			}
		}
	}
	if r, err := other.checkOver(t, known); err == nil {
		t.Errorf("a client with another name: %s", r.Status)
	}
	// Refunds are allowed where each client has a known name.
	for server, want := range map[secured]codes.Code{every: codes.PermissionDenied, named: codes.OK, other: codes.Unavailable} {
		if got := server.refundOver(t, known); got != want {
			t.Errorf("a refund: %v, want %v", got, want)
		}
	}
}

func TestServerTLS_ReloadsTheCAsForEachConnection(t *testing.T) {
	files, renewed := newFiles(t), newFiles(t)
	server := serveSecured(t, files, "")
	former := clientConfig(t, files)
	former.ClientSessionCache = tls.NewLRUClientSessionCache(1) // a resumed session must not outlive its CA
	latter := former.Clone()
	latter.Certificates = clientConfig(t, renewed).Certificates
	latter.ClientSessionCache = nil
	for range 2 {
		if _, err := server.checkOver(t, former); err != nil {
			t.Fatal(err)
		}
	}
	both, err := os.ReadFile(renewed.CA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.CA, both, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.checkOver(t, latter); err != nil {
		t.Errorf("a client of the new CA: %v", err)
	}
	if r, err := server.checkOver(t, former); err == nil {
		t.Errorf("a client of the removed CA: %s", r.Status)
	}
	if err := os.WriteFile(files.CA, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.checkOver(t, latter); err != nil {
		t.Errorf("a client while the file is written: %v", err)
	}
	minuteAgo := time.Now().Add(-time.Minute)
	if err := os.Chtimes(files.CA, minuteAgo, minuteAgo); err != nil {
		t.Fatal(err)
	}
	if r, err := server.checkOver(t, latter); err == nil {
		t.Errorf("a client without any CA: %s", r.Status)
	}
}

func TestServerTLSFlags_RejectInvalidValues(t *testing.T) {
	files := newFiles(t)
	cert, key := "--http-cert="+files.ServerCert, "--http-key="+files.ServerKey
	for name, test := range map[string]struct {
		flags   []string
		message string
	}{
		"a certificate without a key":   {[]string{cert}, "set both --http-cert and --http-key; --http-client-ca requires both"},
		"a CA without a certificate":    {[]string{"--http-client-ca=" + files.CA}, "set both --http-cert and --http-key"},
		"names without a CA":            {[]string{cert, key, "--http-client-names=a"}, "--http-client-names requires --http-client-ca"},
		"a CA file without a CA":        {[]string{cert, key, "--http-client-ca=" + files.ServerKey}, "--http-client-ca: " + files.ServerKey + " contains no PEM certificate"},
		"TLS without a socket":          {[]string{"--grpc-cert=" + files.ServerCert}, "--grpc-client-names require --grpc-listen, which is empty"},
		"a domain that is too long":     {[]string{"--grpc-default-domain=" + strings.Repeat("x", 254)}, "--grpc-default-domain is longer than 253 bytes"},
		"an invalid value of a refund":  {[]string{"--grpc-refunds=Never"}, `--grpc-refunds "Never" is invalid: must be Allowed or Forbidden`},
		"a key of another certificate":  {[]string{cert, "--http-key=" + files.ClientKey}, "--http-cert, --http-key: "},
		"a CA file that does not exist": {[]string{cert, key, "--http-client-ca=/nowhere.pem"}, "--http-client-ca: open /nowhere.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			expectUsageError(t, append([]string{"serve", "--policies", t.TempDir()}, test.flags...), test.message)
		})
	}
}
