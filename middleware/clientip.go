package middleware

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// peerIP is the address at the other end of the connection; invalid where there is none, on a Unix socket say.
func peerIP(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return plain(peer.Addr())
}

// ForwardedFor reads the client's address from X-Forwarded-For, for use with [ClientIP]. Clients write that header too, so
// it is read from its end, and only as far as addresses are those of trusted proxies: what stands before the first that is
// not, it may have made up.
func ForwardedFor(trusted ...netip.Prefix) func(*http.Request) netip.Addr {
	trusted = slices.Clone(trusted)
	return func(r *http.Request) netip.Addr {
		return forwardedFor(trusted, peerIP(r), strings.Join(r.Header["X-Forwarded-For"], ","))
	}
}

func forwardedFor(trusted []netip.Prefix, peer netip.Addr, line string) netip.Addr {
	client := peer
	for line != "" && slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(client) }) {
		cut := strings.LastIndexByte(line, ',')
		before, ok := forwardedAddr(strings.TrimSpace(line[cut+1:]))
		if !ok {
			return client // the proxy that wrote this is as far as we know
		}
		client, line = before, line[:max(cut, 0)]
	}
	return client
}

// forwardedAddr reads what proxies write: an address, some with its port, an IPv6 one then in brackets.
func forwardedAddr(text string) (addr netip.Addr, ok bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return plain(addr), true
	}
	withPort, err := netip.ParseAddrPort(text)
	return plain(withPort.Addr()), err == nil
}

// plain is addr as rules compare it: an IPv4 address is one however it was written, and a zone is ours, not the client's.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
