//go:build !linux

package admin

import (
	"context"
	"net"
)

// PeerContext is the ConnContext of an http.Server on a Unix socket. The mode of the socket admits only its owner, and this system does not
// name the peer in a portable way.
func PeerContext(ctx context.Context, c net.Conn) context.Context {
	if _, is := c.(*net.UnixConn); is {
		return WithCaller(ctx, "owner of the socket")
	}
	return ctx
}
