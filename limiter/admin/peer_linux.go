package admin

import (
	"context"
	"fmt"
	"net"
	"syscall"
)

// PeerContext is the ConnContext of an http.Server on a Unix socket: it names the caller by the user ID that the kernel reports. Requests
// over other connections have no caller.
func PeerContext(ctx context.Context, c net.Conn) context.Context {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return ctx
	}
	var peer *syscall.Ucred
	if raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}) != nil || err != nil {
		return ctx
	}
	return WithCaller(ctx, fmt.Sprintf("uid %d, pid %d", peer.Uid, peer.Pid))
}
