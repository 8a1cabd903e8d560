package rules

import (
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Request is what of a request can be matched and counted. Build it with its fields normalised: [NormalHost],
// [NormalPath], header names in lower case. The zero ClientIP is "unknown".
type Request struct {
	Domain   string
	Method   string
	Host     string
	Path     string
	Query    map[string][]string
	Headers  map[string]string
	ClientIP netip.Addr
	// Claims of the caller's token. Whoever built the request vouches for them.
	Claims map[string]any
	// Descriptors are Envoy's: each is what a proxy says of the request.
	Descriptors []Descriptor
	// Kubernetes is the write to the Kubernetes API that the request is; nil for any other request. Rules for the one match none
	// of the other.
	Kubernetes *KubernetesRequest
}

// Descriptor is a list of entries, in the order in which a proxy gave them.
type Descriptor []Entry

// Entry is a part of a Descriptor.
type Entry struct{ Key, Value string }

// NormalHost returns host in lower case without port and trailing dot.
func NormalHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") && strings.IndexByte(host[i+1:], ':') < 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// NormalPath returns the path without query, decoded, without dot segments and double slashes, beginning with a slash:
// no spelling of a path dodges the policy on it. Escapes that are none stay as they are.
func NormalPath(p string) string {
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	return path.Clean("/" + decode(p))
}

// decode decodes the escapes in p and leaves alone what only looks like one: one bad escape must not hide the others.
func decode(p string) string {
	if decoded, err := url.PathUnescape(p); err == nil {
		return decoded
	}
	var b strings.Builder
	for p != "" {
		escape := p[:min(3, len(p))]
		decoded, err := url.PathUnescape(escape)
		if p[0] != '%' || err != nil {
			escape, decoded = p[:1], p[:1]
		}
		b.WriteString(decoded)
		p = p[len(escape):]
	}
	return b.String()
}

// JoinHeader is the one value of a header, its name in lower case, that came in several lines: as Envoy joins them before it
// asks, so that all doors read the same.
func JoinHeader(name string, lines []string) string {
	if name == "cookie" {
		return strings.Join(lines, "; ")
	}
	return strings.Join(lines, ",")
}

// Cookie returns the named cookie's value, "" if there is none.
func (r *Request) Cookie(name string) string {
	line := r.Headers["cookie"]
	if line == "" {
		return ""
	}
	cookies, err := http.ParseCookie(line)
	if err != nil {
		return ""
	}
	for _, c := range cookies {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}
