package socket

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory, so that their deadlines use the clock of a bubble.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// connect serves handler, and returns a connection to the server.
func connect(t *testing.T, handler http.HandlerFunc, draining func() bool) net.Conn {
	t.Helper()
	server := NewHTTP(handler, draining, slog.New(slog.DiscardHandler))
	server.Protocols.SetHTTP1(true)
	listener := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	client, accepted := net.Pipe()
	listener.accept <- accepted
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), StopHTTP(server)); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return client
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func serving() bool { return false }

// A caller that stalls does not hold its connection, whatever it does not do.
func TestNewHTTP_ClosesTheConnectionsOfCallersThatStall(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); errors.Is(err, os.ErrDeadlineExceeded) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestTimeout)
		}
	}
	for name, test := range map[string]struct {
		request string
		after   time.Duration
	}{
		"that sends nothing":            {"", 5 * time.Second},
		"that ends in the headers":      {"GET / HTTP/1.1\r\nHost: weir\r\n", 5 * time.Second},
		"that ends in the body":         {"POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\n\r\n{", 10 * time.Second},
		"that sends no further request": {"GET / HTTP/1.1\r\nHost: weir\r\n\r\n", 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, answer, serving)
				began := time.Now()
				send(t, c, test.request)
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < test.after || took > test.after+time.Second {
					t.Errorf("closed after %v, want %v", took, test.after)
				}
			})
		})
	}
}

func TestNewHTTP_ClosesTheConnectionsOfCallersThatDoNotReadTheirResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error)
		c := connect(t, func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			failed <- err
		}, serving)
		began := time.Now()
		send(t, c, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
		err := <-failed
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != 30*time.Second {
			t.Errorf("%v after %v, want a timeout after 30 s", err, took)
		}
	})
}

func TestNewHTTP_RefusesLongHeaders(t *testing.T) {
	for size, want := range map[int]int{30 << 10: http.StatusOK, 40 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		synctest.Test(t, func(t *testing.T) {
			c := connect(t, func(http.ResponseWriter, *http.Request) {}, serving)
			go func() { // the server does not read it all
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: weir\r\nX-Long: "+strings.Repeat("x", size)+"\r\n\r\n")
			}()
			response := read(t, c)
			if response.StatusCode != want {
				t.Errorf("headers of %d bytes: %s, want %d", size, response.Status, want)
			}
		})
	}
}

// read reads a response without a body.
func read(t *testing.T, c net.Conn) *http.Response {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	return response
}

func TestNewHTTP_ClosesConnectionsAfterTheResponseWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draining := false
		c := connect(t, func(http.ResponseWriter, *http.Request) {}, func() bool { return draining })
		send(t, c, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
		if response := read(t, c); response.Close {
			t.Error("the connection closes while the server is not draining")
		}
		draining = true
		send(t, c, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
		if response := read(t, c); !response.Close {
			t.Error("the response does not announce that the connection closes")
		}
		if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes and %v after the last response, want the end", n, err)
		}
	})
}

// StopHTTP waits for requests in flight, but not for longer than ten seconds.
func TestStopHTTP_WaitsForRequestsInFlight(t *testing.T) {
	for took, aborted := range map[time.Duration]bool{9 * time.Second: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			server := NewHTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(took):
				case <-r.Context().Done():
				}
			}), serving, slog.New(slog.DiscardHandler))
			server.Protocols.SetHTTP1(true)
			listener := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
			go func() { _ = server.Serve(listener) }() // ends with StopHTTP
			client, accepted := net.Pipe()
			listener.accept <- accepted
			send(t, client, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
			go func() { _, _ = io.Copy(io.Discard, client) }()
			synctest.Wait()
			began := time.Now()
			err := StopHTTP(server)
			if (err != nil) != aborted || time.Since(began) > 11*time.Second {
				t.Errorf("a request of %v: %v after %v, want an error: %v", took, err, time.Since(began), aborted)
			}
			if aborted && !strings.Contains(err.Error(), "did not finish within 10s") {
				t.Errorf("%v, want the time", err)
			}
			_ = client.Close()
		})
	}
}
