package redisclient

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// blackHole returns the address of a socket whose backlog is full: it answers no SYN.
func blackHole(t *testing.T) (address string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 2}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	bound, _ := name.(*syscall.SockaddrInet4)
	tcp := &net.TCPAddr{IP: net.IP(bound.Addr[:]), Port: bound.Port}
	for {
		conn, err := net.DialTimeout("tcp", tcp.String(), 50*time.Millisecond)
		if err != nil {
			return tcp.String()
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

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
func TestHosts_DivideTheTimeAmongTheAddresses(t *testing.T) {
	dead := blackHole(t)
	_, port, _ := net.SplitHostPort(dead)
	alive, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = alive.Close() })
	const patience = 400 * time.Millisecond
	h := &hosts{dialer: net.Dialer{Timeout: patience}, lookup: addressesOf("127.0.0.2", "127.0.0.1")}
	for i, atLeast := range []time.Duration{patience / 2, 0} {
		began := time.Now()
		conn, err := h.dial(t.Context(), "tcp", "redis:"+port)
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

func TestHosts_DialTheNextAddressWhenOneRefuses(t *testing.T) {
	alive, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = alive.Close() })
	_, port, _ := net.SplitHostPort(alive.Addr().String())
	h := &hosts{dialer: net.Dialer{Timeout: time.Minute}, lookup: addressesOf("127.0.0.3", "127.0.0.4", "127.0.0.1")}
	conn, err := h.dial(t.Context(), "tcp", "redis:"+port)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	h.lookup = addressesOf("127.0.0.3", "127.0.0.4")
	if _, err = h.dial(t.Context(), "tcp", "redis:"+port); kindOf(err) != KindUnreachable || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want that the connection is refused", err)
	}
	h.lookup = func(context.Context, string) ([]net.IPAddr, error) {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	if _, err = h.dial(t.Context(), "tcp", "redis:"+port); kindOf(err) != KindUnreachable {
		t.Errorf("%v has the kind %q, want unreachable", err, kindOf(err))
	}
}
