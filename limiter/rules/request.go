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
}

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
	if decoded, err := url.PathUnescape(p); err == nil {
		p = decoded
	}
	return path.Clean("/" + p)
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
