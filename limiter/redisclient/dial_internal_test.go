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
