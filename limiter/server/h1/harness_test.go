package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// patience bounds every wait of the tests.
const patience = time.Minute

// The timeouts of the servers, with the relations of those of a limiter.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)

// newRest returns the configuration of a server.
func newRest(handler http.Handler) *http.Server {
	rest := &http.Server{
		Handler: handler, Protocols: new(http.Protocols), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: 32 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	rest.Protocols.SetHTTP1(true)
	rest.Protocols.SetUnencryptedHTTP2(true)
	return rest
}

// counted counts the requests that each of the two servers has read. The context of net/http has its server.
type counted struct{ simple, handedOver int }

func (n *counted) count(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(http.ServerContextKey) == nil {
			n.simple++
		} else {
			n.handedOver++
		}
		next(w, r)
	})
}

// pipe serves a connection in memory, so that its deadlines use the clock of a bubble. It ends with the test, or with stop.
func pipe(t *testing.T, rest *http.Server) (client net.Conn, server *Server, stop func()) {
	t.Helper()
	client, accepted := net.Pipe()
	server = New(rest)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(fixture.PipeListener(accepted)) }()
	return client, server, func() {
		_ = client.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		server.running.Wait()
		time.Sleep(time.Second) // on the fake clock: net/http keeps a closed connection for half a second
	}
}

// overTCP serves on a loopback address until the test ends.
func overTCP(t *testing.T, rest *http.Server) (address string) {
	t.Helper()
	server := New(rest)
	address = serveOn(t, server.Serve)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(server.Shutdown(ctx), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return address
}

// serveOn calls serve with a listener on a loopback address.
func serveOn(t *testing.T, serve func(net.Listener) error) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(listener) }()
	t.Cleanup(func() {
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if !write(t, c, text) {
		t.FailNow()
	}
}

// write is send for goroutines of a test.
func write(t *testing.T, c net.Conn, text string) bool {
	t.Helper()
	_, err := io.WriteString(c, text)
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// receive reads a response and its body.
func receive(t *testing.T, from *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// closeWrite ends what the client sends.
func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	half, is := c.(interface{ CloseWrite() error })
	if !is {
		t.Fatalf("a connection of type %T", c)
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
}
