package redisclient

import (
	"context"
	"net"
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
		time.Sleep(50 * time.Millisecond) // the tickets arrive
		return conn, err
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
