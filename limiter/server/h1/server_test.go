package h1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

const get = "GET / HTTP/1.1\r\nHost: weir\r\n\r\n"

func TestShutdown_FinishesRequestsAndClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := make([]net.Conn, 2), make([]net.Conn, 2), make([]net.Conn, 2)
		for _, pair := range [][]net.Conn{first, second, third} {
			pair[0], pair[1] = net.Pipe()
		}
		server := New(newRest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				time.Sleep(time.Second)
			}
			echo(w, r)
		})))
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(fixture.PipeListener(first[1], second[1], third[1])) }()
		idle, busy := bufio.NewReader(first[0]), bufio.NewReader(second[0])
		send(t, first[0], get)
		receive(t, idle)
		send(t, second[0], "GET /slow HTTP/1.1\r\nHost: weir\r\n\r\n")
		synctest.Wait() // the third one has sent nothing
		began := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- server.Shutdown(t.Context()) }()
		for _, c := range []io.Reader{idle, third[0]} {
			if got, err := io.ReadAll(c); len(got) > 0 || err != nil || time.Since(began) > 0 {
				t.Errorf("an idle connection has %q and %v after %v", got, err, time.Since(began))
			}
		}
		if response, body := receive(t, busy); response.StatusCode != http.StatusOK || !response.Close || body != `""` {
			t.Errorf("the request in progress: %s %s, closes: %v", response.Status, body, response.Close)
		}
		if err := <-stopped; err != nil || time.Since(began) < time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func TestShutdown_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, accepted := net.Pipe()
		server := New(newRest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })))
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(fixture.PipeListener(accepted)) }()
		send(t, client, get)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(client); len(got) > 0 || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		<-ended
	})
}

func TestServe_AcceptsNothingAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, accepted := net.Pipe()
		server := New(newRest(http.HandlerFunc(echo)))
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := server.Serve(fixture.PipeListener(accepted)); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		synctest.Wait()
		_ = client.Close()
	})
}

// A connection that arrives while the server stops does not wait for anything.
func TestServe_ClosesConnectionsThatArriveAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := New(newRest(http.HandlerFunc(echo)))
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		clients, accepted := make([]net.Conn, 2), make([]net.Conn, 2)
		for i := range clients {
			clients[i], accepted[i] = net.Pipe()
		}
		l := &handover{Listener: fixture.PipeListener(accepted...), closed: make(chan struct{})}
		go server.accept(l)
		for i, c := range clients {
			if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
				t.Errorf("client %d: %q, %v; want the end", i, got, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// net/http takes no more connections after it has closed its listener.
func TestGive_ClosesTheConnectionAfterShutdown(t *testing.T) {
	client, accepted := net.Pipe()
	l := &handover{Listener: fixture.PipeListener(), closed: make(chan struct{})}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	l.give(accepted)
	if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is open: %v", err)
	}
	_ = client.Close()
}

func TestServer_ForgetsClosedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server, stop := pipe(t, newRest(http.HandlerFunc(echo)))
		defer stop()
		send(t, c, get)
		receive(t, bufio.NewReader(c))
		_ = c.Close()
		server.running.Wait()
		if n := len(server.conns); n > 0 {
			t.Errorf("%d connections are remembered", n)
		}
	})
}

// failing is a listener whose first calls of Accept fail.
type failing struct {
	net.Listener

	errs chan error
}

func (l *failing) Accept() (net.Conn, error) {
	select {
	case err := <-l.errs:
		return nil, err
	default:
		return l.Listener.Accept()
	}
}

func TestServe_ContinuesAfterTemporaryErrorsOfTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, accepted := net.Pipe()
		l := &failing{fixture.PipeListener(accepted), make(chan error, 2)}
		for range cap(l.errs) {
			l.errs <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		}
		server := New(newRest(http.HandlerFunc(echo)))
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		began := time.Now()
		send(t, client, get)
		receive(t, bufio.NewReader(client))
		if paused := time.Since(began); paused < 5*time.Millisecond {
			t.Errorf("two errors within %v", paused)
		}
		_ = client.Close()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
	})
}

func TestServe_EndsIfTheListenerFails(t *testing.T) {
	broken := errors.New("broken")
	l := &failing{fixture.PipeListener(), make(chan error, 1)}
	l.errs <- broken
	if err := New(newRest(http.HandlerFunc(echo))).Serve(l); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// secured returns a server with TLS, and a configuration for its clients.
func secured(t *testing.T, handler http.Handler) (*http.Server, *tls.Config) {
	t.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(certified.Close)
	transport, is := certified.Client().Transport.(*http.Transport)
	if !is {
		t.Fatalf("a transport of type %T", certified.Client().Transport)
	}
	rest := newRest(handler)
	rest.Protocols.SetHTTP2(true)
	rest.TLSConfig = &tls.Config{Certificates: certified.TLS.Certificates}
	return rest, transport.TLSClientConfig
}

func TestNew_OffersTheProtocolsOfTheServer(t *testing.T) {
	for hasHTTP2, want := range map[bool][]string{false: {"http/1.1"}, true: {"h2", "http/1.1"}} {
		rest := newRest(nil)
		rest.Protocols.SetHTTP2(hasHTTP2)
		own := &tls.Config{}
		rest.TLSConfig = own
		server := New(rest)
		if !slices.Equal(server.tls.NextProtos, want) || !slices.Equal(rest.TLSConfig.NextProtos, want) {
			t.Errorf("offers %q, and net/http %q; want %q", server.tls.NextProtos, rest.TLSConfig.NextProtos, want)
		}
		if own.NextProtos != nil {
			t.Errorf("the configuration of the caller has become %q", own.NextProtos)
		}
	}
}

func TestServer_ServesTLS(t *testing.T) {
	var n counted
	states := make(chan *tls.ConnectionState, 3)
	rest, trusting := secured(t, n.count(func(w http.ResponseWriter, r *http.Request) {
		states <- r.TLS
		echo(w, r)
	}))
	address := overTCP(t, rest)
	for _, test := range []struct {
		protocol, request string
		major             int
		want              counted
	}{
		{"http/1.1", get, 1, counted{1, 0}},
		{"", get, 1, counted{2, 0}},
		{"http/1.1", "GET / HTTP/1.1\nHost: weir\n\n", 1, counted{2, 1}},
	} {
		config := trusting.Clone()
		if test.protocol != "" {
			config.NextProtos = []string{test.protocol}
		}
		c, err := tls.Dial("tcp", address, config)
		if err != nil {
			t.Fatal(err)
		}
		send(t, c, test.request)
		if response, _ := receive(t, bufio.NewReader(c)); response.StatusCode != http.StatusOK || n != test.want {
			t.Errorf("%q, %q: %s, %+v", test.protocol, test.request, response.Status, n)
		}
		if state := <-states; state == nil || !state.HandshakeComplete || state.NegotiatedProtocol != test.protocol {
			t.Errorf("%q, %q: state %+v", test.protocol, test.request, state)
		}
		_ = c.Close()
	}
	transport := &http.Transport{TLSClientConfig: trusting.Clone(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 || n != (counted{2, 2}) || <-states == nil {
		t.Errorf("%s, %+v", response.Proto, n)
	}
}

// net/http reports clients that fail the handshake.
func TestServer_LogsFailuresOfTLS(t *testing.T) {
	rest, _ := secured(t, http.HandlerFunc(echo))
	var lines fixture.LockedBuffer
	rest.ErrorLog = log.New(&lines, "", 0)
	address := overTCP(t, rest)
	c := dial(t, address)
	send(t, c, get)
	if got, err := io.ReadAll(c); err != nil || !bytes.Contains(got, []byte("Client sent an HTTP request to an HTTPS server.")) {
		t.Errorf("%q, %v", got, err)
	}
	fixture.Await(t, "a line in the log", func() bool {
		return strings.Contains(lines.String(), "TLS handshake error from "+c.LocalAddr().String())
	})
}

func TestServer_EndsHandshakesOfClientsThatStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := newRest(http.HandlerFunc(echo))
		rest.TLSConfig = &tls.Config{}
		c, _, stop := pipe(t, rest)
		defer stop()
		began := time.Now()
		if got, err := io.ReadAll(c); len(got) > 0 || err != nil || time.Since(began) != headerTimeout {
			t.Errorf("%q, %v after %v; want the end after %v", got, err, time.Since(began), headerTimeout)
		}
	})
}

func TestDateAt_ChangesWithTheSecond(t *testing.T) {
	server := New(newRest(nil))
	first := time.Date(2026, 11, 24, 6, 0, 0, 999_999_999, time.FixedZone("", 3600))
	for at, want := range map[time.Time]string{
		first: "Tue, 24 Nov 2026 05:00:00 GMT", first.Add(time.Nanosecond): "Tue, 24 Nov 2026 05:00:01 GMT",
		first.Add(-time.Second): "Tue, 24 Nov 2026 04:59:59 GMT",
	} {
		for range 2 {
			if got := server.dateAt(at); got != want {
				t.Errorf("%v: %s, want %s", at, got, want)
			}
			if d := server.date.Load(); d == nil || d.text != want {
				t.Errorf("%v: %+v is kept, want %s", at, d, want)
			}
		}
	}
}

// exhausted is a listener that accepts one connection, and then has no file descriptors.
type exhausted struct {
	net.Listener

	first chan net.Conn
}

func (l *exhausted) Accept() (net.Conn, error) {
	select {
	case c := <-l.first:
		return c, nil
	default:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
}

// Connections that are accepted already need no listener.
func TestServe_HandsOverWhileTheListenerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, accepted := net.Pipe()
		l := &exhausted{fixture.PipeListener(), make(chan net.Conn, 1)}
		l.first <- accepted
		var n counted
		server := New(newRest(n.count(echo)))
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		time.Sleep(headerTimeout / 2) // the pauses are long
		began, from := time.Now(), bufio.NewReader(client)
		send(t, client, "GET / HTTP/1.1\nHost: weir\n\n")
		if receive(t, from); time.Since(began) > 0 || n.handedOver != 1 {
			t.Errorf("a response after %v, %+v", time.Since(began), n)
		}
		_ = client.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		time.Sleep(time.Second) // net/http keeps a closed connection for half a second
	})
}

// A connection shows that there are file descriptors again.
func TestServe_PausesAsAtFirstAfterAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &exhausted{fixture.PipeListener(), make(chan net.Conn, 1)}
		var lines strings.Builder
		rest := newRest(http.HandlerFunc(echo))
		rest.ErrorLog = log.New(&lines, "", 0)
		server := New(rest)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		time.Sleep(5 * time.Second) // the pauses are long
		client, accepted := net.Pipe()
		l.first <- accepted
		time.Sleep(2 * time.Second)
		_ = client.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		time.Sleep(time.Second) // net/http keeps a closed connection for half a second
		synctest.Wait()
		if n := strings.Count(lines.String(), "retrying in 5ms"); n != 2 {
			t.Errorf("%d shortest pauses, want one at the start and one after the connection:\n%s", n, lines.String())
		}
	})
}

func TestClose_EndsHandshakes(t *testing.T) {
	rest, _ := secured(t, http.HandlerFunc(echo))
	for range 5 {
		server := New(rest)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		var clients sync.WaitGroup
		for range 20 {
			clients.Go(func() {
				if c, err := net.Dial("tcp", listener.Addr().String()); err == nil {
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}
			})
		}
		fixture.Await(t, "connections", func() bool {
			server.mu.Lock()
			defer server.mu.Unlock()
			return len(server.conns) > 0
		})
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		clients.Wait()
		<-ended
		rest, _ = secured(t, http.HandlerFunc(echo))
	}
}

// deadlines has the deadline of writes.
type deadlines struct {
	net.Conn

	writes time.Time
}

func (d *deadlines) SetWriteDeadline(by time.Time) error {
	d.writes = by
	return d.Conn.SetWriteDeadline(by)
}

func (d *deadlines) SetDeadline(by time.Time) error {
	d.writes = by
	return d.Conn.SetDeadline(by)
}

// A server writes when a client changes its keys. An earlier deadline of writes must not end the connection then.
func TestServer_IdleConnectionsOfTLSHaveNoDeadlineOfWrites(t *testing.T) {
	rest, trusting := secured(t, http.HandlerFunc(echo))
	synctest.Test(t, func(t *testing.T) {
		client, accepted := net.Pipe()
		watched := &deadlines{Conn: accepted, writes: time.Unix(1, 0)}
		server := New(rest)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(fixture.PipeListener(watched)) }()
		config := trusting.Clone()
		config.InsecureSkipVerify = true // the clock of the bubble is before the certificate
		c := tls.Client(client, config)
		from := bufio.NewReader(c)
		for range 2 {
			send(t, c, get)
			receive(t, from)
			synctest.Wait()
			if !watched.writes.IsZero() {
				t.Errorf("the deadline is %v", watched.writes)
			}
		}
		_ = client.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		server.running.Wait()
	})
}

func TestClose_DoesNotWaitForClientsOfTLS(t *testing.T) {
	rest, trusting := secured(t, http.HandlerFunc(echo))
	synctest.Test(t, func(t *testing.T) {
		client, accepted := net.Pipe()
		server := New(rest)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(fixture.PipeListener(accepted)) }()
		config := trusting.Clone()
		config.InsecureSkipVerify = true // the clock of the bubble is before the certificate
		c := tls.Client(client, config)
		send(t, c, get)
		receive(t, bufio.NewReader(c)) // and it reads no more
		began := time.Now()
		if err := server.Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		<-ended
		server.running.Wait()
		_ = client.Close()
	})
}
