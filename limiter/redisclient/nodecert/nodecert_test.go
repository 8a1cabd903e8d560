package nodecert_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/weir-dev/weir/limiter/redisclient/nodecert"
	"github.com/weir-dev/weir/test/fixture"
)

func TestAccept_VerifiesTheAddressOrTheEndpoint(t *testing.T) {
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey) // for 127.0.0.1 and server.weir.test
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		ca, ip, endpoint string
		accepted         bool
	}{
		"valid for the endpoint":  {files.CA, "10.0.0.7", "server.weir.test", true},
		"valid for the address":   {files.CA, "127.0.0.1", "cache.example", true},
		"valid for neither":       {files.CA, "10.0.0.7", "cache.example", false},
		"of a CA that is unknown": {other.CA, "10.0.0.7", "server.weir.test", false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(test.ca)
			if err != nil {
				t.Fatal(err)
			}
			config := &tls.Config{MinVersion: tls.VersionTLS12}
			nodecert.Accept(config, test.ip, test.endpoint)
			config.RootCAs = x509.NewCertPool()
			config.RootCAs.AppendCertsFromPEM(text)
			requested := make(chan string, 1)
			listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				requested <- hello.ServerName
				return &pair, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1)) // the handshake, until the client closes its side
			}()
			client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			err = tls.Client(client, config).Handshake()
			var rejected *tls.CertificateVerificationError
			if (err == nil) != test.accepted || (err != nil && !errors.As(err, &rejected)) {
				t.Errorf("error %v, want accepted: %t", err, test.accepted)
			}
			if got := <-requested; got != test.endpoint {
				t.Errorf("requested %q, want %q", got, test.endpoint)
			}
		})
	}
}
