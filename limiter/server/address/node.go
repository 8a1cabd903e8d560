package address

import (
	"net/netip"
	"strconv"
	"strings"
)

// parseNode returns the address in an entry: 192.0.2.1, 192.0.2.1:4711, 2001:db8::1, [2001:db8::1], [2001:db8::1]:4711, or with an
// obfuscated port, [2001:db8::1]:_x. ok is false for all other entries: "unknown", "_hidden", names, invalid text.
func parseNode(text string) (ip netip.Addr, ok bool) {
	host, port := text, ""
	if inner, bracketed := strings.CutPrefix(text, "["); bracketed {
		var closed bool
		if host, port, closed = strings.Cut(inner, "]"); !closed || !strings.Contains(host, ":") {
			return netip.Addr{}, false
		}
		if port != "" && port[0] != ':' {
			return netip.Addr{}, false
		}
	} else if strings.Count(text, ":") == 1 { // not an IPv6 address
		at := strings.IndexByte(text, ':')
		host, port = text[:at], text[at:]
	}
	if port != "" && !isPort(port[1:]) {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	return normalize(ip), true
}

// isPort reports whether text is a port of RFC 7239: a number, or "_" and an identifier.
func isPort(text string) bool {
	if name, obfuscated := strings.CutPrefix(text, "_"); obfuscated {
		return name != "" && strings.Trim(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") == ""
	}
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
