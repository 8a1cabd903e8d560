package h2

import (
	"net"
	"syscall"
	"testing"
	"time"
)

func TestServer_TCPMustDeliverWithinTheKeepaliveTimeout(t *testing.T) {
	overBoth(t, func(t *testing.T, o Options, dial func(string) (net.Conn, error)) {
		o.KeepaliveTimeout = 7 * time.Second
		_, s := connect(t, o, dial)
		raw, err := only(s).raw.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // the test fails then
		if err != nil {
			t.Fatal(err)
		}
		got, failed := 0, error(nil)
		if err := raw.Control(func(fd uintptr) { got, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) }); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if got != 7000 {
			t.Errorf("TCP_USER_TIMEOUT is %d ms, want 7000", got)
		}
	})
}
