package address

import (
	"fmt"
	"net"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/weir-dev/weir/go/internal/limiter/clientip"
)

// ProxyProtocol returns listener with the PROXY protocol, version 1 or 2, for the load balancers. They must send its header within
// timeout, and the RemoteAddr of their connections is the address in the header. Connections from other addresses must not use
// the protocol: a load balancer that is missing from the list gets errors, instead of one counter for all of its clients.
func ProxyProtocol(listener net.Listener, balancers *Networks, timeout time.Duration) net.Listener {
	return &proxyproto.Listener{
		Listener:          listener,
		ReadHeaderTimeout: timeout,
		ConnPolicy: func(c proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			peer, ok := clientip.Parse(c.Upstream.String())
			if !ok { // rejects the connection without closing the listener
				return proxyproto.REJECT, fmt.Errorf("%w: %v", proxyproto.ErrInvalidUpstream, c.Upstream)
			}
			if balancers.Contains(peer) {
				return proxyproto.REQUIRE, nil
			}
			return proxyproto.SKIP, nil
		},
	}
}
