package h1

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

// read is what a server reads of the head of a request.
type read struct {
	method, target, host string
	url                  url.URL
	fields               http.Header
	length               int64
	closes               bool
}

// netHTTP reads a head as the server of net/http does, whose checks after http.ReadRequest are not exported.
func netHTTP(text string) (read, error) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return read{}, err
	}
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || !httpguts.ValidHostHeader(r.Host) || len(r.TransferEncoding) > 0 || r.Trailer != nil {
		return read{}, fmt.Errorf("%s, host %q, %q", r.Proto, r.Host, r.TransferEncoding)
	}
	for name, values := range r.Header {
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return read{}, fmt.Errorf("%q: %q", name, value)
			}
		}
	}
	delete(r.Header, "Host")
	return read{r.Method, r.RequestURI, r.Host, *r.URL, r.Header, r.ContentLength, r.Close}, nil
}

// parsed reads a head as a connection does, after another one, whose memory it uses.
func parsed(t testing.TB, text string) (read, bool) {
	c := newConn(New(newRest(nil)), nil, nil)
	if !c.parse("POST /before?a=b HTTP/1.1\r\nHost: before\r\nContent-Length: 7\r\nConnection: close\r\nX-Before: 1\r\nx-before: 2\r\n\r\n") {
		t.Fatal("a usual head was not read")
	}
	if !c.parse(text) {
		return read{}, false
	}
	h := &c.head
	return read{h.method, h.target, h.host, *c.parsed, maps.Clone(h.fields), h.length, h.closes}, true
}

const lines = "Host: weir\r\n"

func heads() map[string]string {
	return map[string]string{
		"usual":                      "GET /v1/auth/shop?deny=403 HTTP/1.1\r\n" + lines + "X-Forwarded-Uri: /a?b=c\r\nCookie: a=b; c=d\r\n\r\n",
		"with a body":                "POST /v1/check HTTP/1.1\r\n" + lines + "Content-Type: application/json\r\nContent-Length: 17\r\n\r\n",
		"escapes in the path":        "GET /v1/auth/a%2Fb%20c HTTP/1.1\r\n" + lines + "\r\n",
		"an empty query":             "GET /v1/auth/a? HTTP/1.1\r\n" + lines + "\r\n",
		"two slashes":                "GET //v1/check HTTP/1.1\r\n" + lines + "\r\n",
		"a fragment":                 "GET /a#b HTTP/1.1\r\n" + lines + "\r\n",
		"names in lower case":        "GET / HTTP/1.1\r\nhost: weir\r\nx-tenant-id: acme\r\n\r\n",
		"names in upper case":        "GET / HTTP/1.1\r\nHOST: weir\r\nX-TENANT-ID: acme\r\n\r\n",
		"unusual characters in name": "GET / HTTP/1.1\r\n" + lines + "x_a!#$%&'*+-.^_`|~9: b\r\n\r\n",
		"repeated fields":            "GET / HTTP/1.1\r\n" + lines + "X-A: 1\r\nX-B: 2\r\nx-a: 3\r\nX-a: 4\r\n\r\n",
		"spaces around a value":      "GET / HTTP/1.1\r\n" + lines + "X-A: \t b \t c \t\r\n\r\n",
		"no space before a value":    "GET / HTTP/1.1\r\nHost:weir:80\r\nX-A:b\r\n\r\n",
		"an empty value":             "GET / HTTP/1.1\r\n" + lines + "X-A:\r\nX-B: \r\n\r\n",
		"text beyond ASCII":          "GET / HTTP/1.1\r\n" + lines + "X-A: \xff\xc3\xa4\r\n\r\n",
		"a colon in a value":         "GET / HTTP/1.1\r\n" + lines + "X-A: b: c\r\n\r\n",
		"a client that closes":       "GET / HTTP/1.1\r\n" + lines + "Connection: Close\r\n\r\n",
		"a client that stays":        "GET / HTTP/1.1\r\n" + lines + "Connection: Keep-Alive\r\n\r\n",
		"no cache":                   "GET / HTTP/1.1\r\n" + lines + "Pragma: no-cache\r\n\r\n",
		"no cache, twice":            "GET / HTTP/1.1\r\n" + lines + "Pragma: no-cache\r\nCache-Control: max-age=0\r\n\r\n",
		"an upgrade without token":   "GET / HTTP/1.1\r\n" + lines + "Upgrade: h2c\r\n\r\n",
		"an address of IPv6":         "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
		"a length with zeros":        "POST / HTTP/1.1\r\n" + lines + "Content-Length: 007\r\n\r\n",
		"a body of 256 KiB":          "POST / HTTP/1.1\r\n" + lines + "Content-Length: 262144\r\n\r\n",
		"all characters of a Host":   "GET / HTTP/1.1\r\nHost: azAZ-09_b.example:80\r\n\r\n",
		"a length of 0":              "POST / HTTP/1.1\r\n" + lines + "Content-Length: 0\r\n\r\n",
		"OPTIONS":                    "OPTIONS /a HTTP/1.1\r\n" + lines + "\r\n",
	}
}

func TestParse_ReadsUsualHeadsAsNetHTTP(t *testing.T) {
	for name, text := range heads() {
		t.Run(name, func(t *testing.T) {
			want, err := netHTTP(text)
			if err != nil {
				t.Fatal(err)
			}
			got, is := parsed(t, text)
			if !is {
				t.Fatal("was left to net/http")
			}
			compare(t, got, want)
		})
	}
}

func compare(t *testing.T, got, want read) {
	t.Helper()
	if !maps.EqualFunc(got.fields, want.fields, slices.Equal) {
		t.Errorf("fields %q, net/http reads %q", got.fields, want.fields)
	}
	got.fields, want.fields = nil, nil
	if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("%#v, net/http reads\n%#v", got, want)
	}
}

// Whatever another server could read in another way, net/http reads.
func TestParse_LeavesUnusualHeadsToNetHTTP(t *testing.T) {
	for name, text := range map[string]string{
		"HTTP/1.0":                        "GET / HTTP/1.0\r\n" + lines + "\r\n",
		"HTTP/1.2":                        "GET / HTTP/1.2\r\n" + lines + "\r\n",
		"no version":                      "GET /\r\n" + lines + "\r\n",
		"HTTP/2":                          "PRI * HTTP/2.0\r\n\r\n",
		"HEAD":                            "HEAD / HTTP/1.1\r\n" + lines + "\r\n",
		"CONNECT":                         "CONNECT /a HTTP/1.1\r\n" + lines + "\r\n",
		"a method in lower case":          "get / HTTP/1.1\r\n" + lines + "\r\n",
		"another method":                  "BREW / HTTP/1.1\r\n" + lines + "\r\n",
		"two spaces in the request line":  "GET  / HTTP/1.1\r\n" + lines + "\r\n",
		"a tab in the request line":       "GET\t/ HTTP/1.1\r\n" + lines + "\r\n",
		"an absolute target":              "GET http://weir/ HTTP/1.1\r\n" + lines + "\r\n",
		"no path":                         "OPTIONS * HTTP/1.1\r\n" + lines + "\r\n",
		"an invalid escape":               "GET /%zz HTTP/1.1\r\n" + lines + "\r\n",
		"a control in the target":         "GET /a\x01 HTTP/1.1\r\n" + lines + "\r\n",
		"no Host":                         "GET / HTTP/1.1\r\nX-A: b\r\n\r\n",
		"an empty Host":                   "GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"an empty Host and another":       "GET / HTTP/1.1\r\nHost:\r\n" + lines + "\r\n",
		"two Hosts":                       "GET / HTTP/1.1\r\n" + lines + lines + "\r\n",
		"a space in the Host":             "GET / HTTP/1.1\r\nHost: we ir\r\n\r\n",
		"a user in the Host":              "GET / HTTP/1.1\r\nHost: a@weir\r\n\r\n",
		"chunks":                          "POST / HTTP/1.1\r\n" + lines + "Transfer-Encoding: chunked\r\n\r\n",
		"chunks and a length":             "POST / HTTP/1.1\r\n" + lines + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"another encoding":                "POST / HTTP/1.1\r\n" + lines + "Transfer-Encoding : chunked\r\n\r\n",
		"two lengths":                     "POST / HTTP/1.1\r\n" + lines + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n",
		"the same length twice":           "POST / HTTP/1.1\r\n" + lines + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n",
		"a list of lengths":               "POST / HTTP/1.1\r\n" + lines + "Content-Length: 3, 3\r\n\r\n",
		"a length with a sign":            "POST / HTTP/1.1\r\n" + lines + "Content-Length: +3\r\n\r\n",
		"a negative length":               "POST / HTTP/1.1\r\n" + lines + "Content-Length: -3\r\n\r\n",
		"no length":                       "POST / HTTP/1.1\r\n" + lines + "Content-Length:\r\n\r\n",
		"a length with an underscore":     "POST / HTTP/1.1\r\n" + lines + "Content-Length: 1_0\r\n\r\n",
		"a body of more than 256 KiB":     "POST / HTTP/1.1\r\n" + lines + "Content-Length: 262145\r\n\r\n",
		"a client that expects 100":       "POST / HTTP/1.1\r\n" + lines + "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n",
		"trailers":                        "POST / HTTP/1.1\r\n" + lines + "Trailer: X-A\r\n\r\n",
		"an upgrade":                      "GET / HTTP/1.1\r\n" + lines + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"a list in Connection":            "GET / HTTP/1.1\r\n" + lines + "Connection: close, x-a\r\n\r\n",
		"a long s in Connection":          "GET / HTTP/1.1\r\n" + lines + "Connection: clo\u017fe\r\n\r\n",
		"two Connections":                 "GET / HTTP/1.1\r\n" + lines + "Connection: close\r\nConnection: keep-alive\r\n\r\n",
		"a folded value":                  "GET / HTTP/1.1\r\n" + lines + "X-A: b\r\n c\r\n\r\n",
		"a line that starts with a space": "GET / HTTP/1.1\r\n X-A: b\r\n" + lines + "\r\n",
		"a space after a name":            "GET / HTTP/1.1\r\nHost : weir\r\n\r\n",
		"no name":                         "GET / HTTP/1.1\r\n" + lines + ": b\r\n\r\n",
		"no colon":                        "GET / HTTP/1.1\r\n" + lines + "X-A\r\n\r\n",
		"a name beyond ASCII":             "GET / HTTP/1.1\r\n" + lines + "X-\xc3\xa4: b\r\n\r\n",
		"CR in a value":                   "GET / HTTP/1.1\r\n" + lines + "X-A: b\rc\r\n\r\n",
		"NUL in a value":                  "GET / HTTP/1.1\r\n" + lines + "X-A: b\x00c\r\n\r\n",
		"DEL in a value":                  "GET / HTTP/1.1\r\n" + lines + "X-A: b\x7fc\r\n\r\n",
		"LF ends the request line":        "GET / HTTP/1.1\n" + lines + "\r\n",
		"LF ends a field":                 "GET / HTTP/1.1\r\nHost: weir\nX-A: b\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, is := parsed(t, text); is {
				t.Errorf("was read as %+v", got)
			}
		})
	}
}

// The memory of a connection does not grow with its requests.
func TestParse_KeepsTheValuesOfOneHead(t *testing.T) {
	c := newConn(New(newRest(nil)), nil, nil)
	for range 3 {
		if !c.parse("GET / HTTP/1.1\r\n" + lines + "X-A: 1\r\nX-B: 2\r\n\r\n") {
			t.Fatal("was left to net/http")
		}
		if got := c.head.values; !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("%q, want the values of the last head", got)
		}
	}
}

func FuzzParse_ReadsAsNetHTTP(f *testing.F) {
	for _, text := range heads() {
		f.Add(text)
	}
	f.Add("GET / HTTP/1.1\r\n" + lines + "Connection: clo\u017fe\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		end := strings.Index(text, "\r\n\r\n")
		if end < 0 || end+4 > bufferSize {
			return // it is no head
		}
		text = text[:end+4]
		got, is := parsed(t, text)
		if !is {
			return
		}
		want, err := netHTTP(text)
		if err != nil {
			t.Fatalf("%q was read as %+v, and net/http rejects it: %v", text, got, err)
		}
		compare(t, got, want)
	})
}

// A client that changes its names cannot make a connection remember many.
func TestCanonical_RemembersABoundedNumberOfNames(t *testing.T) {
	c := newConn(New(newRest(nil)), nil, nil)
	for i := range 10 * maxNames {
		if name := fmt.Sprintf("x-name-%d", i); c.head.canonical(name) != http.CanonicalHeaderKey(name) {
			t.Errorf("%s became %q", name, c.head.canonical(name))
		}
	}
	long := newConn(New(newRest(nil)), nil, nil)
	for name, want := range map[string]int{strings.Repeat("x", maxName+1): 0, strings.Repeat("x", maxName): 1} {
		if long.head.canonical(name); long.head.names[name] != http.CanonicalHeaderKey(name) && want == 1 || len(long.head.names) > 1 {
			t.Errorf("a name of %d bytes: %q", len(name), long.head.names)
		}
	}
	if got := len(c.head.names); got != maxNames {
		t.Errorf("%d names are remembered, want %d", got, maxNames)
	}
}

func BenchmarkParse(b *testing.B) {
	text := "GET /v1/auth/shop HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\nX-Forwarded-Host: shop.example\r\n" +
		"X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /orders\r\nX-Tenant-Id: tenant-0000001\r\nAccept-Encoding: gzip\r\n\r\n"
	b.Run("h1", func(b *testing.B) {
		c := newConn(New(newRest(nil)), nil, nil)
		in := []byte(text)
		b.ReportAllocs()
		for b.Loop() {
			if !c.parse(string(in)) {
				b.Fatal("was not read")
			}
		}
	})
	b.Run("net-http", func(b *testing.B) {
		var in strings.Reader
		from := bufio.NewReader(&in)
		b.ReportAllocs()
		for b.Loop() {
			in.Reset(text)
			from.Reset(&in)
			if _, err := http.ReadRequest(from); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A connection keeps no memory of a head with many fields.
func TestParse_ForgetsTheMemoryOfManyFields(t *testing.T) {
	c := newConn(New(newRest(nil)), nil, nil)
	for range 2 {
		if !c.parse("GET / HTTP/1.1\r\n" + lines + manyFields() + "\r\n") {
			t.Fatal("the head was not read")
		}
		if !c.parse("GET / HTTP/1.1\r\n" + lines + "A: b\r\n\r\n") {
			t.Fatal("the head was not read")
		}
		if got := cap(c.head.values); got > maxNames {
			t.Errorf("memory for %d fields", got)
		}
	}
}

func manyFields() string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "a%d:\r\n", i)
	}
	return b.String()
}
