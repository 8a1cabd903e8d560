package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weir-dev/weir/limiter/clientip"
	"github.com/weir-dev/weir/limiter/server/address"
)

// peerIP is the peer address of the connection. It is invalid on a Unix socket, which has no address.
func peerIP(r *http.Request) netip.Addr {
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil { // as net/http writes it, and in half of the time
		return clientip.Plain(peer.Addr())
	}
	peer, _ := clientip.Parse(r.RemoteAddr) // without a port, if a middleware of the program has replaced it
	return peer
}

// ForwardedFor returns a function for [ClientIP] that reads the client's address from X-Forwarded-For. Clients can write that header too.
// So it is read from its end, as long as the addresses are those of trusted proxies: the first address that is not, is the client's,
// and the client may have forged what precedes it. Without trusted networks, the address is the peer's. ForwardedFor panics on a network
// that contains every address, because then clients could choose their address.
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
		panic(fmt.Sprintf("httplimit: ForwardedFor: %v", err))
	}
	clients := address.NewTrusted(address.XForwardedFor, proxies)
	return func(r *http.Request) netip.Addr { return clients.Client(peerIP(r), r.Header) }
}
