package route

import "strings"

// routeHost returns the host of a request as gateways compare it with the hosts of routes: in lower case and without port. A host with a trailing dot
// is another host.
//
// If the text after the last colon is no port, gateways differ. Envoy ignores it with ignore_port_in_host_matching, which Envoy Gateway, Istio and
// Contour set. With strip_any_host_port, it removes only numbers of up to 32 bits. The request can then belong to the routes of both hosts, of which
// other is the one with the text; otherwise, other is empty.
func routeHost(authority string) (host, other string) {
	host, port := cutPort(authority)
	if !isPort(port) {
		other = strings.ToLower(authority)
	}
	return strings.ToLower(host), other
}

// isPort reports whether all gateways take the text for a port: a number of 1 to 9 digits, which has less than 32 bits.
func isPort(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return len(text) >= 1 && len(text) <= 9
}

// cutPort returns the host before the last colon and the port after it. The colons of an IPv6 address are in brackets.
func cutPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i], host[i+1:]
	}
	return host, "0"
}
