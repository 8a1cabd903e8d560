package throttle

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/socket"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

// listening is a running Server.
type listening struct {
	address string
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // valid after ended is closed
}

// A sender stalls in the middle of a review that takes the whole weight of large reviews.
func TestHandler_CutsOffASlowLargeReview(t *testing.T) {
	files := newFiles(t)
	l := serveTLS(t, newTestHandler(t, newEngine(t, atNoon(), limit("a", 1, hour))), files, 0)
	config, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	slow, err := tls.Dial("tcp", l.address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	const head = "POST " + Path + "?timeout=1s HTTP/1.1\r\nHost: limiter\r\nContent-Length: %d\r\n\r\n{"
	if _, err := fmt.Fprintf(slow, head, maxLargeBytes); err != nil {
		t.Fatal(err)
	}
	if err := slow.SetReadDeadline(time.Now().Add(socket.ReadTimeout / 2)); err != nil { // every request must have arrived by then
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "ended early") {
		t.Errorf("%s %s, %v", answer.Status, text, err)
	}
}

// API servers always send Content-Length. Another sender must not reserve the memory of all large reviews with a body of unknown length.
func TestHandler_AChunkedReviewDelaysNoLargeReview(t *testing.T) {
	files := newFiles(t)
	l := serveTLS(t, newTestHandler(t, newEngine(t, atNoon(), limit("a", 100, hour))), files, 0)
	config, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	slow, err := tls.Dial("tcp", l.address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	const chunk = 1000
	if _, err := fmt.Fprintf(slow, "POST "+Path+" HTTP/1.1\r\nHost: limiter\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", chunk, strings.Repeat(" ", chunk)); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: socket.ReadTimeout}
	large := reviewBody(t, "create", withObjectSize(200<<10))
	for range 5 { // the handler reads the slow body meanwhile
		began := time.Now()
		response, err := client.Post("https://"+l.address+Path+"?timeout=1s", "application/json", bytes.NewReader(large))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || err != nil {
			t.Errorf("a large review, after %v: %s %s, %v", time.Since(began).Round(time.Millisecond), response.Status, text, err)
		}
	}
}

func TestHandler_AcceptsASmallReviewOfUnknownLength(t *testing.T) {
	handler := newTestHandler(t, newEngine(t, atNoon(), limit("a", 1, hour)))
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, Path, io.MultiReader(bytes.NewReader(reviewBody(t, "create"))))
	if handler.ServeHTTP(w, r); r.ContentLength != -1 || w.Code != http.StatusOK {
		t.Errorf("length %d: %d %s", r.ContentLength, w.Code, w.Body)
	}
}

func TestReadTimeout_DependsOnTheSize(t *testing.T) {
	for size, want := range map[int64]time.Duration{1 << 20: 312500 * time.Microsecond, 8 << 20: 750 * time.Millisecond, 32 << 20: 2250 * time.Millisecond} {
		if got := readTimeout(size); got != want {
			t.Errorf("%d bytes: %v, want %v", size, got, want)
		}
	}
}

func serveTLS(t testing.TB, handler http.Handler, files *fixture.TLSFiles, drain time.Duration) *listening {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &listening{address: listener.Addr().String(), stop: stop, ended: make(chan struct{})}
	server := NewServer(handler, serverCertificate(files), drain, discard())
	go func() {
		defer close(l.ended)
		l.err = server.Run(ctx, listener)
	}()
	t.Cleanup(func() {
		stop()
		<-l.ended
		if l.err != nil {
			t.Error(l.err)
		}
	})
	return l
}

func serverCertificate(files *fixture.TLSFiles) Certificate {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
		return &pair, err
	}
}

func newFiles(t testing.TB) *fixture.TLSFiles {
	t.Helper()
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func postReview(client *http.Client, address string, body []byte) (*http.Response, error) {
	response, err := client.Post("https://"+address+Path+"?timeout=2s", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response, err
}

func TestServer_KeepsHTTP1AndHTTP2Connections(t *testing.T) {
	files := newFiles(t)
	l := serveTLS(t, newTestHandler(t, newEngine(t, atNoon(), limit("a", 10, hour))), files, 0)
	for http2, major := range map[bool]int{true: 2, false: 1} {
		client := tlsClient(t, files, http2)
		var connections []string
		for range 3 {
			response, err := postReview(client, l.address, reviewBody(t, "create"))
			if err != nil || response.StatusCode != http.StatusOK || response.ProtoMajor != major || response.Close {
				t.Fatalf("%+v, %v", response, err)
			}
			connections = append(connections, fmt.Sprintf("%p", response.TLS.PeerCertificates[0])) // parsed once per connection
		}
		if connections[0] != connections[2] {
			t.Errorf("HTTP/%d: the connection is not reused", major)
		}
	}
}

func TestServer_RejectsOldTLSAndUntrustedClients(t *testing.T) {
	files := newFiles(t)
	l := serveTLS(t, newTestHandler(t, newEngine(t, atNoon())), files, 0)
	old, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := postReview(tlsClientWith(t, old, false), l.address, reviewBody(t, "create")); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.1: %v", err)
	}
	strange, err := newFiles(t).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := postReview(tlsClientWith(t, strange, false), l.address, reviewBody(t, "create")); err == nil {
		t.Error("a client that trusts another CA got a response")
	}
	if response, err := http.Get("http://" + l.address + Path); err == nil && response.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %+v", response)
	}
	http.DefaultClient.CloseIdleConnections()
}

// gatedStore blocks every Spend until its gate opens.
type gatedStore struct {
	limiter.Store
	arrived, gate chan struct{}
}

func (s *gatedStore) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.arrived <- struct{}{}
	<-s.gate
	return s.Store.Spend(ctx, charges)
}

func TestServer_DrainsBeforeItStops(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			const drain = 300 * time.Millisecond
			store := &gatedStore{Store: atNoon(), arrived: make(chan struct{}, 2), gate: make(chan struct{})}
			openGate := sync.OnceFunc(func() { close(store.gate) })
			defer openGate()
			files := newFiles(t)
			l := serveTLS(t, newTestHandler(t, newEngine(t, store, limit("a", 10, hour))), files, drain)
			client := tlsClient(t, files, http2)
			answers := make(chan error, 2)
			arrived := func() {
				t.Helper()
				select {
				case <-store.arrived:
				case <-time.After(patience):
					t.Fatal("a review is not handled")
				}
			}
			send := func() {
				response, err := postReview(client, l.address, reviewBody(t, "create"))
				if err == nil && response.StatusCode != http.StatusOK {
					err = errors.New(response.Status)
				}
				answers <- err
			}
			go send()
			arrived()
			stopped := time.Now()
			l.stop()
			go send() // during the drain
			arrived()
			for closing := http2; !closing; { // HTTP/2 has no Connection header
				response, err := postReview(client, l.address, reviewBody(t, "create", fromUser("root", "system:masters")))
				if err != nil {
					t.Fatalf("the draining server did not close the connection in time: %v", err)
				}
				closing = response.Close
			}
			if after := time.Since(stopped); after > drain {
				t.Errorf("the server sends Connection: close after %v, want within %v", after, drain)
			}
			refused := func() bool {
				connection, err := net.Dial("tcp", l.address)
				if err == nil {
					_ = connection.Close()
				}
				return err != nil
			}
			fixture.Await(t, "the server refuses new connections", refused)
			if after := time.Since(stopped); after < drain {
				t.Errorf("new connections were refused after %v, want %v", after, drain)
			}
			openGate()
			for range 2 {
				if err := <-answers; err != nil {
					t.Errorf("a request in flight: %v", err)
				}
			}
			<-l.ended
		})
	}
}

func TestServer_ReturnsListenerErrors(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	err = NewServer(http.NotFoundHandler(), serverCertificate(newFiles(t)), time.Hour, discard()).Run(t.Context(), listener)
	if err == nil || !strings.Contains(err.Error(), "serve the throttle endpoint on "+listener.Addr().String()) {
		t.Errorf("error %v does not contain the address", err)
	}
}

// The test connects behind TLS, in a synctest bubble.
func TestServer_ClosesStalledConnections(t *testing.T) {
	const head = "POST /v1/throttle HTTP/1.1\r\nHost: weir\r\n"
	for name, test := range map[string]struct {
		sent  string
		after time.Duration
	}{
		"no bytes":            {"", 5 * time.Second},
		"half of the headers": {head, 5 * time.Second},
		"half of the body":    {head + "Content-Length: 100\r\n\r\n{", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := NewServer(newTestHandler(t, &stubEngine{}), nil, 0, discard()).http
				theirs, ours := net.Pipe()
				listener := connection.PipeListener(ours)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = server.Serve(listener)
				}()
				began := time.Now()
				if _, err := io.WriteString(theirs, test.sent); err != nil {
					t.Fatal(err)
				}
				_, _ = io.ReadAll(theirs)
				if took := time.Since(began); took < test.after || took > test.after+time.Second {
					t.Errorf("cut off after %v, want %v", took, test.after)
				}
				_ = theirs.Close()
				_ = server.Close()
				<-done
				time.Sleep(time.Second) // fake time: net/http keeps closed connections for half a second
			})
		})
	}
}
