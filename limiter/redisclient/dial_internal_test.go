package redisclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/fixture"
)

// After the handshake, the server sends session tickets. go-redis must not take them for a notification and wait for its rest: a new connection
// would cost a decision its whole timeout.
func TestDialer_WithTLSTheFirstCommandDoesNotWaitForSessionTickets(t *testing.T) {
	const timeout = 20 * time.Second
	server, files := fixture.RedisTLS(t, true)
	config, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	o := &Options{Mode: ModeStandalone, Addresses: []string{server.Addr()}, TLS: config, Timeout: timeout}
	options, dial := o.universal().Simple(), o.dialer()
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn, awaitBytes(ctx, conn.(*tls.Conn).NetConn().(*lateConn)) //nolint:forcetypeassert // dialTLS returns these types
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	began := time.Now()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > timeout/4 {
		t.Errorf("the first command took %v", took)
	}
}

// awaitBytes waits until bytes have arrived, and does not read them.
func awaitBytes(ctx context.Context, conn *lateConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return fixture.Poll(ctx, time.Millisecond, func(context.Context) error {
		n, peekErr := 0, error(nil)
		err := raw.Read(func(fd uintptr) bool {
			n, _, peekErr = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return true
		})
		if n <= 0 {
			return errors.Join(errors.New("no session ticket"), err, peekErr)
		}
		return nil
	})
}

func TestKindOf_ADialToAnyAddressThatFailsIsUnreachable(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	for _, err := range []error{errors.Join(refused, refused), unknown} {
		if got := kindOf(err); got != KindUnreachable {
			t.Errorf("%v has the kind %q, want unreachable", err, got)
		}
	}
}

// Services announce the addresses of nodes, and have a certificate for the name of the endpoint.
func TestTLSConfig_AcceptsTheNameOfTheEndpointForANode(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		address string
		want    string // requested of the server
		either  bool   // also a certificate for the address
	}{
		"the endpoint":         {Options{Addresses: []string{"cache.example:10000"}}, "cache.example:10000", "cache.example", false},
		"a node":               {Options{Addresses: []string{"cache.example:10000"}}, "10.0.0.7:8500", "cache.example", true},
		"a node with a name":   {Options{Addresses: []string{"cache.example:10000"}}, "node-1.example:8500", "node-1.example", false},
		"an endpoint by IP":    {Options{Addresses: []string{"10.0.0.6:6379"}}, "10.0.0.7:6379", "10.0.0.7", false},
		"one of several":       {Options{Addresses: []string{"a.example:6379", "10.0.0.7:6379"}}, "10.0.0.7:6379", "10.0.0.7", false},
		"of Sentinels":         {Options{Mode: ModeSentinel, Addresses: []string{"s.example:26379"}}, "10.0.0.7:6379", "10.0.0.7", false},
		"with a name to check": {Options{TLS: &tls.Config{ServerName: "x.example"}, Addresses: []string{"cache.example:10000"}}, "10.0.0.7:8500", "x.example", false},
	} {
		if test.options.TLS == nil {
			test.options.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		config, err := test.options.tlsConfig(test.address)
		if err != nil || config.ServerName != test.want || (config.VerifyConnection != nil) != test.either || config.InsecureSkipVerify != test.either {
			t.Errorf("%s: %q, %t, %v; want %q, %t", name, config.ServerName, config.VerifyConnection != nil, err, test.want, test.either)
		}
	}
}
