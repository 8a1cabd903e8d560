package address

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weir-dev/weir/limiter/clientip"
)

// Field is the header in which proxies report the client.
type Field string

// The fields. Only one of them is read: a proxy that sets one of them forwards the other as the client sent it.
const (
	XForwardedFor Field = "X-Forwarded-For"
	Forwarded     Field = "Forwarded" // RFC 7239, its for=
)

// ParseField returns the field with the given name.
func ParseField(name string) (Field, error) {
	for _, f := range []Field{XForwardedFor, Forwarded} {
		if http.CanonicalHeaderKey(name) == string(f) {
			return f, nil
		}
	}
	return "", fmt.Errorf("%q is invalid: must be %s or %s", name, XForwardedFor, Forwarded)
}

// Trusted determines which entries of the field are trusted.
type Trusted struct {
	field   Field
	proxies *Networks
}

// NewTrusted returns a Trusted for a set of proxies. The set may be empty, see [Trusted.Client] and [Trusted.ClientOfSource].
func NewTrusted(field Field, proxies *Networks) *Trusted {
	return &Trusted{field: field, proxies: proxies}
}

// Client returns the client address of a request that the proxy at peer describes to a limiter in header h: the first address from
// the right in the field that does not belong to a trusted proxy. An invalid entry ends the search, and the result is the address to
// its right. The result is the peer if the peer is not trusted or the field has no address. Without a set of proxies, the peer is
// trusted and no other proxy is: the client is the last address in the field, which the peer must have written.
func (t *Trusted) Client(peer netip.Addr, h http.Header) netip.Addr {
	client := clientip.Plain(peer)
	if !t.trusts(client) {
		return client
	}
	return t.search(client, h[string(t.field)])
}

// ClientOfSource returns the client address of a request that a proxy received from source with header h, for callers that report
// source separately, as Envoy does. It differs from Client without a set of proxies: then the client is source. The proxy has not
// necessarily appended source to the field, so the last address in the field can be the client's choice.
func (t *Trusted) ClientOfSource(source netip.Addr, h http.Header) netip.Addr {
	return t.ClientOfLines(source, h[string(t.field)])
}

// ClientOfLines is ClientOfSource for the lines of the field.
func (t *Trusted) ClientOfLines(source netip.Addr, lines []string) netip.Addr {
	client := clientip.Plain(source)
	if !t.proxies.Contains(client) {
		return client
	}
	return t.search(client, lines)
}

// search returns the client address of a request from a trusted peer.
func (t *Trusted) search(client netip.Addr, lines []string) netip.Addr {
	for node := range t.field.fromRight(lines) {
		ip, ok := clientip.Parse(node)
		if !ok {
			return client
		}
		client = ip
		if !t.proxies.Contains(ip) {
			return client
		}
	}
	return client
}

// Ignores reports whether h has the field and Client ignores it, because peer is not trusted.
func (t *Trusted) Ignores(peer netip.Addr, h http.Header) bool {
	return len(h[string(t.field)]) > 0 && !t.trusts(clientip.Plain(peer))
}

// Field returns the field that Client reads.
func (t *Trusted) Field() Field { return t.field }

// trusts reports whether Client uses the field of a request from peer.
func (t *Trusted) trusts(peer netip.Addr) bool {
	return t.proxies.Empty() || t.proxies.Contains(peer)
}
