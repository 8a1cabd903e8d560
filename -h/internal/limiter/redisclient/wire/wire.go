// Package wire finds out what answers at an address: Redis or an HTTP server, with or without TLS.
package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// probes is the largest number of connections that Identify makes.
const probes = 2

// Server is what a server at an address is.
type Server int

// The values of Server.
const (
	Unknown  Server = iota
	Redis           // replies as Redis does, without TLS
	HTTP            // an HTTP server, without TLS
	RedisTLS        // replies as Redis does, with TLS
	HTTPS           // an HTTP server, with TLS
	TLS             // another server with TLS, or one that requires a client certificate
)

// Identify sends a PING to the server at address, first without TLS and then with it, and looks at the reply. It trusts any certificate, because
// it sends no credentials and only classifies the reply.
// serverName is that for TLS; empty uses the host. A dial, and the wait for a reply, take at most timeout each.
func Identify(ctx context.Context, address, serverName string, timeout time.Duration) Server {
	p := prober{address: address, serverName: serverName, timeout: timeout}
	ctx, cancel := context.WithTimeout(ctx, probes*timeout)
	defer cancel()
	switch reply, err := p.exchange(ctx, nil); {
	case err != nil:
		return Unknown
	case isHTTP(reply):
		// A server with TLS can reply to plain HTTP with an HTTP error.
		if over, err := p.exchange(ctx, p.anyCertificate()); err == nil && isRedis(over) {
			return RedisTLS
		}
		return HTTP
	case isRedis(reply):
		return Redis
	}
	switch reply, err := p.exchange(ctx, p.anyCertificate()); {
	case err == nil && isRedis(reply):
		return RedisTLS
	case err == nil && isHTTP(reply):
		return HTTPS
	case err == nil, IsAlert(err):
		return TLS
	default:
		return Unknown
	}
}

// prober sends PINGs.
type prober struct {
	address, serverName string
	timeout             time.Duration
}

// anyCertificate returns a configuration that trusts any certificate.
func (p *prober) anyCertificate() *tls.Config {
	name := p.serverName
	if host, _, err := net.SplitHostPort(p.address); err == nil && name == "" {
		name = host
	}
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, ServerName: name} //nolint:gosec // see Identify
}

// isHTTP also recognizes the page without a header that some servers send in reply to what is not HTTP/1.
func isHTTP(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("HTTP/")) || bytes.HasPrefix(reply, []byte("<"))
}

// isRedis reports whether reply is a status or an error of Redis.
func isRedis(reply []byte) bool {
	return len(reply) > 1 && (reply[0] == '+' || reply[0] == '-') && reply[1] >= 'A' && reply[1] <= 'Z'
}

// IsAlert reports whether err is an alert of TLS that the server sent.
func IsAlert(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "remote error"
}

// exchange sends a PING over a new connection, and returns the beginning of the reply, or nothing if the server closes the connection. An error
// is that of the dial or of the TLS handshake.
func (p *prober) exchange(ctx context.Context, config *tls.Config) ([]byte, error) {
	dialer := &net.Dialer{Timeout: p.timeout}
	conn, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(p.timeout)); err != nil {
		return nil, err
	}
	if config != nil {
		encrypted := tls.Client(conn, config)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = encrypted
	}
	_, _ = conn.Write([]byte("PING\r\n\r\n")) // fails if the server has closed the connection; a reply can have arrived before
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	if n == 0 && IsAlert(err) {
		return nil, err // TLS 1.3: the server rejects the certificate of the client after the handshake
	}
	return reply[:n], nil
}
