package hosts

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture/connection"
)

// addressesOf returns a lookup of a name that has these addresses.
func addressesOf(ips ...string) func(context.Context, string) ([]net.IPAddr, error) {
	return func(context.Context, string) ([]net.IPAddr, error) {
		var found []net.IPAddr
		for _, ip := range ips {
			found = append(found, net.IPAddr{IP: net.ParseIP(ip)})
		}
		return found, nil
	}
}

// The addresses of a name share the time of a dial. One that does not answer comes last afterwards.
func TestDial_DivideTheTimeAmongTheAddresses(t *testing.T) {
	alive, port := aliveBesidesDead(t)
	const patience = 400 * time.Millisecond
	h := &Dialer{Dialer: net.Dialer{Timeout: patience}, lookup: addressesOf("127.0.0.2", "127.0.0.1")}
	for i, atLeast := range []time.Duration{patience / 2, 0} {
		began := time.Now()
		conn, err := h.Dial(t.Context(), "tcp", "redis:"+port)
		took := time.Since(began)
		if err != nil {
			t.Fatalf("dial %d: %v after %v", i, err, took)
		}
		if got := conn.RemoteAddr().String(); got != alive.Addr().String() || took < atLeast || i > 0 && took >= patience/2 {
			t.Errorf("dial %d: %s after %v, want %s after at least %v", i, got, took, alive.Addr(), atLeast)
		}
		_ = conn.Close()
	}
}

func TestDial_DialTheNextAddressWhenOneRefuses(t *testing.T) {
	alive, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = alive.Close() })
	_, port, _ := net.SplitHostPort(alive.Addr().String())
	h := &Dialer{Dialer: net.Dialer{Timeout: time.Minute}, lookup: addressesOf("127.0.0.3", "127.0.0.4", "127.0.0.1")}
	conn, err := h.Dial(t.Context(), "tcp", "redis:"+port)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	h.lookup = addressesOf("127.0.0.3", "127.0.0.4")
	if _, err = h.Dial(t.Context(), "tcp", "redis:"+port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want that the connection is refused", err)
	}
	h.lookup = func(context.Context, string) ([]net.IPAddr, error) {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	_, err = h.Dial(t.Context(), "tcp", "redis:"+port)
	if operation, ok := errors.AsType[*net.OpError](err); !ok || operation.Op != "dial" {
		t.Errorf("%v is no error of a dial", err)
	}
}

// aliveBesidesDead returns a listener on 127.0.0.1 whose port does not answer on 127.0.0.2. Another process can have the port on 127.0.0.1 already.
func aliveBesidesDead(t *testing.T) (alive net.Listener, port string) {
	t.Helper()
	for range 20 {
		_, port, _ = net.SplitHostPort(connection.BlackHole(t, "127.0.0.2"))
		alive, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			t.Cleanup(func() { _ = alive.Close() })
			return alive, port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	t.Fatal("there is no port that is free on 127.0.0.1 and on 127.0.0.2")
	return nil, ""
}
