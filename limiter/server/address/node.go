package address

import (
	"net/netip"
	"strconv"
	"strings"
)

// parseNode returns the address of an entry: 192.0.2.1, 192.0.2.1:4711, 2001:db8::1, [2001:db8::1], [2001:db8::1]:4711,
// and with an obfuscated port, [2001:db8::1]:_x. Of everything else nothing is known: "unknown", "_hidden", names, junk.
func parseNode(text string) (ip netip.Addr, known bool) {
	host, port := text, ""
	if inner, bracketed := strings.CutPrefix(text, "["); bracketed {
		var closed bool
		if host, port, closed = strings.Cut(inner, "]"); !closed || !strings.Contains(host, ":") {
			return netip.Addr{}, false
		}
		if port != "" && port[0] != ':' {
			return netip.Addr{}, false
		}
	} else if at := strings.IndexByte(text, ':'); at >= 0 && at == strings.LastIndexByte(text, ':') { // no IPv6 address
		host, port = text[:at], text[at:]
	}
	if port != "" && !isPort(port[1:]) {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	return plain(ip), true
}

// isPort says whether text is a port of RFC 7239: a number, or "_" and what the proxy likes.
func isPort(text string) bool {
	if name, obfuscated := strings.CutPrefix(text, "_"); obfuscated {
		return name != "" && strings.Trim(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") == ""
	}
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
