package rules

import (
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Request has the properties of a request that rules can match and count by. It is an HTTP request unless NoHTTP or Kubernetes is set.
// Its fields must be normalized with [NormalHost] and [NormalPath], and header names must be in lower case. The zero ClientIP means that
// the address is unknown.
type Request struct {
	Domain   string
	Method   string
	Host     string
	Path     string
	Query    map[string][]string
	Headers  map[string]string
	ClientIP netip.Addr
	// Claims of the caller's token. The code that creates the Request must have verified them.
	Claims map[string]any
	// Descriptors are the descriptors that Envoy sends for the request.
	Descriptors []Descriptor
	// NoHTTP is true if the caller has sent descriptors without an HTTP request. Only rules that can match such a request do, see
	// [Rule.Kinds].
	NoHTTP bool
	// InvalidClientIP is true if the caller has named a client address that is no address. ClientIP is then the zero Addr.
	InvalidClientIP bool
	// Kubernetes is set if the request is a write to the Kubernetes API, and nil for other requests. A rule matches only one of these
	// two kinds of requests.
	Kubernetes *KubernetesRequest
}

// Descriptor is a list of entries, in the order in which the proxy sent them.
type Descriptor []Entry

// Entry is one entry of a Descriptor.
type Entry struct{ Key, Value string }

// NormalHost returns host in lower case, without port and trailing dot.
func NormalHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// NormalPath returns the path decoded, without query, dot segments and double slashes, and with a leading slash, so that a client cannot
// avoid a policy by another spelling of the path. Invalid escapes stay unchanged.
func NormalPath(p string) string {
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	return path.Clean("/" + decode(p))
}

// decode decodes the valid escapes in p and keeps invalid ones, so that an invalid escape does not hide the others.
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

// JoinHeader joins the lines of a header into one value, as Envoy does, so that all endpoints read the same value. The name is in lower
// case.
func JoinHeader(name string, lines []string) string {
	if name == "cookie" {
		return strings.Join(lines, "; ")
	}
	return strings.Join(lines, ",")
}

// Cookie returns the value of a cookie, or "" if the request does not have it. The error is that of a malformed Cookie header.
func (r *Request) Cookie(name string) (string, error) {
	line := r.Headers["cookie"]
	if line == "" {
		return "", nil
	}
	cookies, err := http.ParseCookie(line)
	if err != nil {
		return "", err
	}
	for _, c := range cookies {
		if c.Name == name {
			return c.Value, nil
		}
	}
	return "", nil
}
