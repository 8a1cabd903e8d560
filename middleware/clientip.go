package middleware

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weir-dev/weir/limiter/server/address"
)

// peerIP is the address at the other end of the connection; invalid where there is none, on a Unix socket say.
func peerIP(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("") // an IPv4 address is one however it was written, and a zone is ours
}

// ForwardedFor reads the client's address from X-Forwarded-For, for use with [ClientIP]. Clients write that header too, so
// it is read from its end, and only as far as addresses are those of trusted proxies: what stands before the first that is
// not, it may have made up. Without any, the address is the peer's. It panics on a network that holds every address: then
// clients would choose theirs.
func ForwardedFor(trusted ...netip.Prefix) func(*http.Request) netip.Addr {
	if len(trusted) == 0 {
		return peerIP
	}
	networks := make([]string, len(trusted))
	for i, prefix := range trusted {
		networks[i] = prefix.Masked().String()
	}
	proxies, err := address.ParseNetworks(networks)
	if err != nil {
		panic(fmt.Sprintf("middleware: ForwardedFor: %v", err))
	}
	clients := address.NewTrusted(address.XForwardedFor, proxies)
	return func(r *http.Request) netip.Addr { return clients.Client(peerIP(r), r.Header) }
}
