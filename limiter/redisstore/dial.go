package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer makes connections, with the authorities of the moment where they can change. It never fails: what cannot be
// connected to is a connection that fails at once, and with it the call. To go-redis, failing to dial is another thing: it
// counts it, and after some such failures dials but once a second, however long Redis has been back. When to ask a Redis that
// was away is for the breaker to say.
func (o *Options) dialer() dial {
	connect := o.connector()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return stillborn{dialError{err}}, nil //nolint:nilerr // its Read and Write return the error
		}
		return conn, nil
	}
}

func (o *Options) connector() dial {
	plain := o.locator()
	if o.TLS == nil {
		return plain
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		config, err := o.tlsFor(address)
		if err != nil {
			return nil, fmt.Errorf("dial Redis: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, o.dialTimeout())
		defer cancel()
		conn, err := plain(ctx, network, address)
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

// locator dials an address where it is to be found.
func (o *Options) locator() dial {
	dialer := &net.Dialer{Timeout: o.dialTimeout(), KeepAlive: keepAlive}
	if o.Locate == nil {
		return dialer.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, o.Locate(address))
	}
}

// tlsFor is the configuration of a connection to that address, under whose name the server must be vouched for.
func (o *Options) tlsFor(address string) (*tls.Config, error) {
	config := o.TLS.Clone()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	if o.Authorities == nil {
		return config, nil
	}
	var err error
	config.RootCAs, err = o.Authorities()
	return config, err
}

// dialError is around why there is no connection: go-redis takes one layer off an error before it hands it on.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// stillborn is a connection that could not be made.
type stillborn struct{ why error }

func (s stillborn) Read([]byte) (int, error)       { return 0, s.why }
func (s stillborn) Write([]byte) (int, error)      { return 0, s.why }
func (stillborn) Close() error                     { return nil }
func (stillborn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (stillborn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (stillborn) SetDeadline(time.Time) error      { return nil }
func (stillborn) SetReadDeadline(time.Time) error  { return nil }
func (stillborn) SetWriteDeadline(time.Time) error { return nil }
