package h2

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not have.
const tcpUserTimeout = 18

// setUserTimeout bounds the time in which TCP must deliver what was written, as grpc-go does. Small responses to a client that disappeared
// fit into the buffer of the socket, so that writing them does not fail.
func setUserTimeout(conn net.Conn, timeout time.Duration) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // without it, keepalive ends the connection
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(timeout.Milliseconds())) // as above
	})
}
