package address

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// serveAddresses responds to each request with the address of its client.
func serveAddresses(t *testing.T, timeout time.Duration, balancers ...string) (addr string) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := ProxyProtocol(inner, networks(t, balancers...), timeout)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return inner.Addr().String()
}

// get opens a connection, sends preface and requests a page.
func get(t *testing.T, addr string, preface []byte) (status int, body string, err error) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(append(bytes.Clone(preface), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"...)); err != nil {
		return 0, "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func version2(t *testing.T, command proxyproto.ProtocolVersionAndCommand, source net.Addr) []byte {
	t.Helper()
	header := proxyproto.HeaderProxyFromAddrs(2, source, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80})
	header.Command = command
	text, err := header.Format()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestProxyProtocol_LoadBalancersReportTheirClients(t *testing.T) {
	addr := serveAddresses(t, 5*time.Second, "127.0.0.0/8")
	client := &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 4711}
	for name, test := range map[string]struct {
		preface []byte
		want    string
	}{
		"version 1":                 {[]byte("PROXY TCP4 203.0.113.7 192.0.2.1 4711 80\r\n"), "203.0.113.7:4711"},
		"version 1 over IPv6":       {[]byte("PROXY TCP6 2001:db8::7 2001:db8::1 4711 80\r\n"), "[2001:db8::7]:4711"},
		"version 2":                 {version2(t, proxyproto.PROXY, client), "203.0.113.7:4711"},
		"version 1, unknown":        {[]byte("PROXY UNKNOWN\r\n"), "127.0.0.1:"},
		"version 2, local command":  {version2(t, proxyproto.LOCAL, client), "127.0.0.1:"},
		"version 2, a health check": {append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x20, 0x00, 0, 0), "127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, err := get(t, addr, test.preface)
			if err != nil || status != http.StatusOK || !strings.HasPrefix(body, test.want) {
				t.Errorf("%d %q, %v; want %s", status, body, err, test.want)
			}
		})
	}
	if status, body, err := get(t, addr, nil); err == nil && status == http.StatusOK {
		t.Errorf("without a header from a load balancer: %d %s", status, body)
	}
}

func TestProxyProtocol_OtherPeersCannotReportClients(t *testing.T) {
	addr := serveAddresses(t, 5*time.Second, "192.0.2.1")
	if status, body, err := get(t, addr, nil); err != nil || status != http.StatusOK || !strings.HasPrefix(body, "127.0.0.1:") {
		t.Errorf("without a header: %d %q, %v", status, body, err)
	}
	if status, body, err := get(t, addr, []byte("PROXY TCP4 203.0.113.7 192.0.2.1 4711 80\r\n")); err != nil || status != http.StatusBadRequest {
		t.Errorf("with a header: %d %q, %v", status, body, err)
	}
}

func TestProxyProtocol_ClosesASilentConnectionAfterTheTimeout(t *testing.T) {
	addr := serveAddresses(t, 20*time.Millisecond, "127.0.0.0/8")
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := silent.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(silent); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
	status, _, err := get(t, addr, []byte("PROXY TCP4 203.0.113.7 192.0.2.1 4711 80\r\n"))
	if err != nil || status != http.StatusOK {
		t.Errorf("while another connection sends nothing: %d, %v", status, err)
	}
}
