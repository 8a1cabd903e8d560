package rules

import (
	"net/http"
	"net/netip"
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
	host, _ = cutPort(host)
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// cutPort returns the host before the last colon and the port after it. The colons of an IPv6 address are in brackets.
func cutPort(host string) (before, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i], host[i+1:]
	}
	return host, "0"
}

// NormalPath returns the path decoded, without query, dot segments and double slashes, and with a leading slash, so that a client cannot
// avoid a policy by another spelling of the path. Invalid escapes stay unchanged.
func NormalPath(p string) string {
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	if p = decode(p); !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return path.Clean(p)
}

// decode decodes the valid escapes in p and keeps invalid ones, so that an invalid escape does not hide the others.
func decode(p string) string {
	at := strings.IndexByte(p, '%')
	if at < 0 {
		return p
	}
	b := append(make([]byte, 0, len(p)), p[:at]...)
	for at < len(p) {
		if p[at] == '%' && at+2 < len(p) {
			high, low := hexDigit(p[at+1]), hexDigit(p[at+2])
			if high >= 0 && low >= 0 {
				b = append(b, byte(high<<4|low))
				at += 3
				continue
			}
		}
		b = append(b, p[at])
		at++
	}
	return string(b)
}

// hexDigit returns the value of a hexadecimal digit, -1 for any other byte.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// JoinHeader joins the lines of a header into one value, as Envoy does, so that all endpoints read the same value. The name is in lower
// case.
func JoinHeader(name string, lines []string) string {
	if name == "cookie" {
		return strings.Join(lines, "; ")
	}
	return strings.Join(lines, ",")
}

// Cookie returns the value of a cookie, or "" if the request does not have it. The error is that of a malformed value. It reads only the
// first cookie with the name: to parse all cookies of a hostile request would take long, and one malformed cookie would hide the others.
func (r *Request) Cookie(name string) (string, error) {
	line := r.Headers["cookie"]
	for from := 0; ; from += len(name) {
		at := strings.Index(line[from:], name)
		if at < 0 || name == "" {
			return "", nil
		}
		from += at
		before, after := strings.TrimRight(line[:from], " \t"), line[from+len(name):]
		if before != "" && !strings.HasSuffix(before, ";") || !strings.HasPrefix(strings.TrimLeft(after, " \t"), "=") {
			continue
		}
		pair, _, _ := strings.Cut(line[from:], ";")
		cookies, err := http.ParseCookie(pair)
		if err != nil {
			return "", err
		}
		return cookies[0].Value, nil
	}
}
