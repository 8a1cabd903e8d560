package endpoints_test

import (
	"crypto/tls"
	"os"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/test/fixture"
)

// requiresClientCertificates checks that the gRPC server accepts only clients with a certificate of the client CA.
func requiresClientCertificates(t *testing.T, s *serving) {
	otherCA, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	otherCert, err := tls.LoadX509KeyPair(otherCA.ClientCert, otherCA.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	without, other := s.knownClient(t), s.knownClient(t)
	without.Certificates = nil
	// Without the callback, crypto/tls would not send a certificate that the server does not accept.
	other.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &otherCert, nil }
	for name, c := range map[string]credentials.TransportCredentials{
		"a client without a certificate":            credentials.NewTLS(without),
		"a client with a certificate of another CA": credentials.NewTLS(other),
		"a client without TLS":                      insecure.NewCredentials(),
	} {
		_, err := ratelimitv3.NewRateLimitServiceClient(s.dial(t, c)).ShouldRateLimit(t.Context(), login("192.0.2.30"))
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: got error %v, want Unavailable", name, err)
		}
	}
	s.wantRemaining(t, `"descriptors":[[{"key":"generic_key","value":"login"},{"key":"remote_address","value":"192.0.2.30"}]]`, 2)
}

// renewsCertificates replaces the certificates of the server with those of another CA. New connections get the new certificate, and
// existing connections stay open.
func renewsCertificates(t *testing.T, s *serving) {
	before := s.dialAsKnownClient(t)
	serial := serverSerial(t, before)
	renewed, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{renewed.ServerCert: s.tls.ServerCert, renewed.ServerKey: s.tls.ServerKey} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	config, err := (&fixture.TLSFiles{CA: renewed.CA, ClientCert: s.tls.ClientCert, ClientKey: s.tls.ClientKey}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if again := serverSerial(t, s.dial(t, credentials.NewTLS(config))); again == serial {
		t.Errorf("a new connection gets the old certificate %s", again)
	}
	if still := serverSerial(t, before); still != serial {
		t.Errorf("an existing connection has certificate %s", still)
	}
	if _, err := health(t, s.dialAsKnownClient(t)); status.Code(err) != codes.Unavailable {
		t.Errorf("a client that trusts only the old CA: got error %v, want Unavailable", err)
	}
}

// serverSerial returns the serial number of the server certificate of conn.
func serverSerial(t *testing.T, conn *grpc.ClientConn) string {
	t.Helper()
	var p peer.Peer
	if state, err := health(t, conn, grpc.Peer(&p)); err != nil || state != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("health: %v, %v", state, err)
	}
	info, is := p.AuthInfo.(credentials.TLSInfo)
	if !is {
		t.Fatalf("no TLS: %v", p.AuthInfo)
	}
	return info.State.PeerCertificates[0].SerialNumber.String()
}

func health(t *testing.T, conn *grpc.ClientConn, options ...grpc.CallOption) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
	t.Helper()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, options...)
	return answer.GetStatus(), err
}
