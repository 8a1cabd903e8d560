package redisclient

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/hosts"
	"github.com/weir-dev/weir/limiter/redisclient/nodecert"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns the dial function for go-redis. It never returns an error: a dial that fails returns a connection whose
// first use fails, and so the command fails. This keeps go-redis from counting failed dials: after some of them it would
// dial only once a second, even when Redis is available again. When to retry an unavailable Redis is the decision of the
// circuit breaker.
func (o *Options) dialer() dialFunc {
	dial := o.dialTLS()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, o.knownHost(address))
		if err != nil {
			return failedConn{wrappedError{err}}, nil //nolint:nilerr // its Read and Write return the error
		}
		return conn, nil
	}
}

func (o *Options) dialTLS() dialFunc {
	dial := o.dialTCP()
	if o.TLS == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		config, err := o.tlsConfig(address)
		if err != nil {
			return nil, fmt.Errorf("dial Redis: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, o.dialTimeout())
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		encrypted := tls.Client(conn, config)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
		}
		return encrypted, nil
	}
}

func (o *Options) dialTCP() dialFunc {
	dialer := &hosts.Dialer{Dialer: net.Dialer{Timeout: o.dialTimeout(), KeepAlive: keepAlive}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if o.DialAddress != nil {
			address = o.DialAddress(address)
		}
		conn, err := dialer.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newLateConn(conn, o.Timeout), nil
	}
}

// tlsConfig returns the configuration of a connection to address. The server certificate must be valid for the host of
// address, not for that of DialAddress.
func (o *Options) tlsConfig(address string) (*tls.Config, error) {
	config := o.TLS.Clone()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
		if endpoint := nodecert.EndpointOf(host, o.Addresses); endpoint != "" && o.Mode != ModeSentinel {
			nodecert.Accept(config, host, endpoint)
		}
	}
	if o.RootCAs == nil {
		return config, nil
	}
	var err error
	config.RootCAs, err = o.RootCAs()
	return config, err
}

// knownHost returns an address with the host of the first address of the options if it has no host: a node of a cluster that reports no hosts.
func (o *Options) knownHost(address string) string {
	port, noHost := strings.CutPrefix(address, ":")
	if !noHost || o.Mode != ModeCluster {
		return address
	}
	host, _, err := net.SplitHostPort(o.Addresses[0])
	if err != nil {
		return address
	}
	return net.JoinHostPort(host, port)
}

// wrappedError wraps an error of a connection: go-redis unwraps an error once before it returns it.
type wrappedError struct{ error }

func (e wrappedError) Unwrap() error { return e.error }

// failedConn is the connection of a dial that failed.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)       { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)      { return 0, c.err }
func (failedConn) Close() error                     { return nil }
func (failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (failedConn) SetDeadline(time.Time) error      { return nil }
func (failedConn) SetReadDeadline(time.Time) error  { return nil }
func (failedConn) SetWriteDeadline(time.Time) error { return nil }
