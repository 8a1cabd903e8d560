package address

import (
	"fmt"
	"net/http"
	"net/netip"
)

// Field is the header field in which proxies name the client.
type Field string

// The fields. One of them is read and the other never is: a proxy that writes the one passes the other on as the
// client wrote it.
const (
	XForwardedFor Field = "X-Forwarded-For"
	Forwarded     Field = "Forwarded" // RFC 7239, its for=
)

// ParseField returns the field of that name.
func ParseField(name string) (Field, error) {
	for _, f := range []Field{XForwardedFor, Forwarded} {
		if http.CanonicalHeaderKey(name) == string(f) {
			return f, nil
		}
	}
	return "", fmt.Errorf("%q is no field that names clients; there are %s and %s", name, XForwardedFor, Forwarded)
}

// Trusted says how far the field is believed.
type Trusted struct {
	field   Field
	proxies *Networks
}

// NewTrusted returns the trust in proxies. When there are none, the peer is believed whoever it is, and nobody behind
// it: the client is the last address in the field, the one that the peer itself has added.
func NewTrusted(field Field, proxies *Networks) *Trusted {
	return &Trusted{field: field, proxies: proxies}
}

// Client returns the client's address of a request with header h that came from peer: the last address in the field
// that is no trusted proxy's, read from the right. An entry that is no address ends the reading; then it is the last address
// that was known. It is the peer's if the peer is not believed or names nobody.
func (t *Trusted) Client(peer netip.Addr, h http.Header) netip.Addr {
	client := plain(peer)
	if !t.believes(client) {
		return client
	}
	for node := range t.field.fromRight(h) {
		ip, known := parseNode(node)
		if !known {
			return client
		}
		client = ip
		if !t.proxies.Contains(ip) {
			return client
		}
	}
	return client
}

// Ignores says whether h names a client that Client will not believe, because peer is not trusted.
func (t *Trusted) Ignores(peer netip.Addr, h http.Header) bool {
	return len(h[string(t.field)]) > 0 && !t.believes(plain(peer))
}

// Field is the field that is read.
func (t *Trusted) Field() Field { return t.field }

// believes says whether what peer writes into the field counts.
func (t *Trusted) believes(peer netip.Addr) bool {
	return t.proxies.Empty() || t.proxies.Contains(peer)
}
