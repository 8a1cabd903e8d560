package rules

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules/reading"
)

// Request has the properties of a request that rules can match and count by. It is an HTTP request unless NoHTTP or Kubernetes is set.
// Its fields must be normalized with [NormalHost] and [Request.SetTarget], and header names must be in lower case. The zero ClientIP means
// that the address is unknown.
type Request struct {
	Domain string
	Method string
	Host   string
	// Path is the usual reading of the path, see [reading.NormalPath]. RawPath is the path as the client has sent it, without the query, if servers can
	// read it in other ways too; otherwise it is "".
	Path    string
	RawPath string
	// Query is the usual reading of the query, see [Request.SetQuery]. OtherQueries are the readings of other servers; nil if all agree.
	// RawQuery is the query as the client has sent it, if there are other readings. PartialQuery is true if it has more parameters than are read.
	RawQuery     string
	Query        map[string][]string
	OtherQueries []map[string][]string
	PartialQuery bool
	// Headers have the joined lines of each header, see [JoinHeader]. RepeatedHeaders are the names of those with several lines.
	Headers         map[string]string
	RepeatedHeaders []string
	// HeaderLines, unless nil, has the lines of the headers by their names as net/http writes them, in place of Headers and RepeatedHeaders. Only the
	// headers that a rule reads are then joined. Two goroutines must not match such a Request at the same time.
	HeaderLines map[string][]string
	ClientIP    netip.Addr
	// Claims of the caller's token. The code that creates the Request must have verified them.
	Claims        map[string]any
	MissingClaims bool // the caller has sent more than fit in Claims
	// Descriptors are the descriptors that Envoy sends for the request.
	Descriptors []Descriptor
	// NoHTTP is true if the caller has sent descriptors without an HTTP request. Only some rules match it, see [Rule.Kinds].
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

// NormalHost returns host in lower case, without port and trailing dots.
func NormalHost(host string) string {
	if end := strings.IndexByte(host, ']'); end >= 0 && host[0] == '[' {
		host = host[:end+1] // an IPv6 address
	} else {
		host, _, _ = strings.Cut(host, ":")
	}
	return strings.TrimRight(strings.ToLower(host), ".")
}

// JoinHeader joins the lines of a header into one value, as Envoy does, so that all endpoints read the same value. The name is in lower
// case.
func JoinHeader(name string, lines []string) string {
	if name == "cookie" {
		return strings.Join(lines, "; ")
	}
	return strings.Join(lines, ",")
}

var errAmbiguousCookie = errors.New("the cookie has several values")

// Cookie returns the value of a cookie, or "" if the request does not have it. The error is that of a malformed value, or of several values, of
// which servers read the first or the last. It parses only the cookies with the name: to parse all cookies of a hostile request would take long,
// and one malformed cookie would hide the others. Frameworks trim a value and decode its escapes, so that each spelling of it is the same value.
func (r *Request) Cookie(name string) (value string, err error) {
	line, _ := r.Header("cookie")
	found := false
	for start := 0; ; start += len(name) {
		index := strings.Index(line[start:], name)
		if index < 0 || name == "" {
			return value, nil
		}
		start += index
		preceding, following := strings.TrimRight(line[:start], " \t"), line[start+len(name):]
		if preceding != "" && !strings.HasSuffix(preceding, ";") || !strings.HasPrefix(strings.TrimLeft(following, " \t"), "=") {
			continue
		}
		_, text, _ := strings.Cut(line[start:], "=")
		text, _, _ = strings.Cut(text, ";")
		cookies, err := http.ParseCookie(name + "=" + strings.TrimSpace(text))
		if err != nil {
			return "", err
		}
		next := cookies[0].Value
		if decoded, err := url.PathUnescape(next); err == nil {
			next = decoded
		}
		if found && next != value {
			return "", errAmbiguousCookie
		}
		value, found = next, true
	}
}

// Value returns the value of the first entry with this key.
func (d Descriptor) Value(key string) (value string, found bool) {
	for _, e := range d {
		if e.Key == key {
			return e.Value, true
		}
	}
	return "", false
}

// SetTarget sets the path of the request from its target, such as /v1/search?q=x, as the client has sent it.
func (r *Request) SetTarget(target string) {
	r.Path, r.RawPath = reading.PathsOf(target)
}

// SetQuery sets the query of the request from its target, such as /v1/search?q=x, as the client has sent it. Malformed pairs are no reason to
// reject the request: the text comes from the client.
func (r *Request) SetQuery(target string) {
	if strings.Contains(target, "?") {
		q := reading.QueryOf(target)
		r.RawQuery, r.Query, r.OtherQueries, r.PartialQuery = q.Raw, q.Usual, q.Others, q.Partial
	}
}

// Parameter returns the value of a parameter of the query. It is ambiguous if the request has several values, of which servers read the first or
// the last, or if readings of the query differ.
func (r *Request) Parameter(name string) (value string, isAmbiguous bool) {
	values, count := r.Query[name], len(r.Query[name])
	for _, other := range r.OtherQueries {
		isAmbiguous = isAmbiguous || len(other[name]) != count
		values = append(slices.Clip(values), other[name]...)
	}
	if len(values) == 0 {
		return "", r.PartialQuery
	}
	for _, other := range values[1:] {
		isAmbiguous = isAmbiguous || other != values[0]
	}
	return values[0], isAmbiguous || r.PartialQuery
}
