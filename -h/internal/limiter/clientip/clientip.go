// Package clientip reads the addresses of clients in the forms in which proxies write them, and names the client that an address belongs to.
// All parts of Weir that take the address of a client use it, so that one client has one counter, whatever wrote its address.
package clientip

import (
	"net/netip"
	"strconv"
	"strings"
)

// maxText is the length of the longest text that can be an address, in bytes. It leaves room for a zone, a port and quotes.
const maxText = 128

// Parse returns the address in a text: 192.0.2.1, 192.0.2.1:4711, 2001:db8::1, [2001:db8::1] or [2001:db8::1]:4711, also in double quotes and with
// spaces around it. The port can be obfuscated as in RFC 7239, [2001:db8::1]:_x. The address has no zone, and is IPv4 if it is mapped to IPv6. ok
// is false for every other text: names, lists, networks.
func Parse(text string) (ip netip.Addr, ok bool) {
	if text, ok = unquote(text); !ok {
		return netip.Addr{}, false
	}
	host, port := text, ""
	if inner, bracketed := strings.CutPrefix(text, "["); bracketed {
		var closed bool
		if host, port, closed = strings.Cut(inner, "]"); !closed || !strings.Contains(host, ":") {
			return netip.Addr{}, false
		}
		if port != "" && port[0] != ':' {
			return netip.Addr{}, false
		}
	} else if colon := strings.IndexByte(text, ':'); colon >= 0 && strings.LastIndexByte(text, ':') == colon { // not an IPv6 address
		host, port = text[:colon], text[colon:]
	}
	if port != "" && !isPort(port[1:]) {
		return netip.Addr{}, false
	}
	host, zone, zoned := strings.Cut(host, "%")
	if zoned && (zone == "" || !strings.Contains(host, ":")) {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(host)
	return ip.Unmap(), err == nil // the zero Addr after an error
}

// ParseNetwork returns the network in a text: an address as Parse reads it, or a network such as 10.0.0.0/24, also in double quotes and with spaces
// around it. Envoy's masked_remote_address is one. Bits after the prefix have no meaning. A network of addresses that are mapped to IPv6 is IPv4.
func ParseNetwork(text string) (network netip.Prefix, ok bool) {
	if ip, ok := Parse(text); ok {
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	if text, ok = unquote(text); !ok {
		return netip.Prefix{}, false
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	if ip := network.Addr(); ip.Is4In6() && network.Bits() >= beforeIPv4 {
		network = netip.PrefixFrom(ip.Unmap(), network.Bits()-beforeIPv4)
	}
	return network.Masked(), true
}

// unquote returns a text without the spaces and the double quotes around it. ok is false if it is too long for an address.
func unquote(text string) (_ string, ok bool) {
	text = strings.Trim(text, " \t")
	if len(text) > maxText {
		return "", false
	}
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	return text, true
}

// isPort reports whether text is a port of RFC 7239: a number, or "_" and an identifier.
func isPort(text string) bool {
	if name, obfuscated := strings.CutPrefix(text, "_"); obfuscated {
		return name != "" && strings.Trim(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") == ""
	}
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// Plain returns an address in the form for comparisons: IPv4 if it is mapped to IPv6, and without its zone, which is meaningful only on the machine
// that wrote it.
func Plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// Client returns the address under which a client is known. It is Plain, and IPv4 if the IPv6 address contains the IPv4 address of the client: see
// embedded.
func Client(ip netip.Addr) netip.Addr {
	ip = Plain(ip)
	if own, _, ok := embedded(ip, ip.BitLen()); ok {
		return own
	}
	return ip
}

// Identifier returns the identifier of a network. An IPv6 network that is larger than its prefix of ipv6Bits bits remains as it is, and all others are
// that prefix. A single IPv4 address has no prefix length. Identifier returns "" for the zero Prefix.
func Identifier(network netip.Prefix, ipv6Bits int) string {
	if !network.IsValid() {
		return ""
	}
	if own, bits, ok := embedded(network.Addr(), network.Bits()); ok {
		network = netip.PrefixFrom(own, bits)
	}
	if ip := network.Addr(); ip.Is4() && network.Bits() == ip.BitLen() {
		return ip.String()
	} else if ip.Is6() {
		network = netip.PrefixFrom(ip, min(network.Bits(), ipv6Bits))
	}
	return network.Masked().String()
}

// beforeIPv4 is the number of bits before the IPv4 address in ::/96, 64:ff9b::/96 and other forms.
const beforeIPv4 = 96

// embedded returns the IPv4 network that the first bits of an IPv6 address contain. Packets to such an address go to the IPv4 address in it, so no other
// client has it:
//
//	64:ff9b::/96          NAT64 and SIIT-DC, RFC 6052
//	::ffff:0:0:0/96       SIIT, RFC 2765
//	::/96                 IPv4-compatible, RFC 4291; not ::, ::1 and others without a network
//	2002::/16             6to4, RFC 3056: the site with this address
//	2001::/32             Teredo, RFC 4380: the address is inverted, at the end
//
// The local prefix of NAT64, 64:ff9b:1::/48 (RFC 8215), is not one of them: where the IPv4 address is depends on the configuration of the translator.
func embedded(ip netip.Addr, bits int) (own netip.Addr, ownBits int, ok bool) {
	if !ip.Is6() {
		return netip.Addr{}, 0, false
	}
	b := ip.As16()
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		ownBits = min(bits-16, 32)
		own = netip.AddrFrom4([4]byte(b[2:6]))
	case [4]byte(b[:4]) == [4]byte{0x20, 0x01}:
		if bits < 128 {
			return netip.Addr{}, 0, false
		}
		ownBits = 32
		own = netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	case [12]byte(b[:12]) == [12]byte{0x00, 0x64, 0xff, 0x9b}, [12]byte(b[:12]) == [12]byte{8: 0xff, 9: 0xff}, [12]byte(b[:12]) == [12]byte{} && b[12] != 0:
		ownBits = bits - beforeIPv4
		own = netip.AddrFrom4([4]byte(b[12:16]))
	}
	return own, ownBits, own.IsValid() && ownBits >= 0
}
