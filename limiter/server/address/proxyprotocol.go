package address

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"
)

// ProxyProtocol returns listener for load balancers that speak the PROXY protocol, version 1 or 2: the RemoteAddr of their
// connections is the address that they name. They must speak it, within timeout of connecting. Everybody else must not,
// and is served as without it: a load balancer that is missing from the list gets errors, instead of being taken for
// all of its clients.
func ProxyProtocol(listener net.Listener, balancers *Networks, timeout time.Duration) net.Listener {
	return &proxyproto.Listener{
		Listener:          listener,
		ReadHeaderTimeout: timeout,
		ConnPolicy: func(c proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			peer, err := netip.ParseAddrPort(c.Upstream.String())
			if err != nil { // refuses the connection, not the listener
				return proxyproto.REJECT, fmt.Errorf("%w: %w", proxyproto.ErrInvalidUpstream, err)
			}
			if balancers.Contains(peer.Addr()) {
				return proxyproto.REQUIRE, nil
			}
			return proxyproto.SKIP, nil
		},
	}
}
