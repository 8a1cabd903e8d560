package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/connection"
)

func TestShutdown_FinishesCallsAndOpensNoMore(t *testing.T) {
	o := settings()
	running, leave := make(chan struct{}, 9), make(chan struct{})
	o.Methods["/a/Stuck"] = Method{Serve: stuck(running, leave)}
	o.Methods["/a/No"] = rejecting()
	s, address := serve(t, o)
	c, idle := dial(t, address), dial(t, address)
	c.call(1, "/a/Stuck", 1)
	<-running
	c.open(3, "/a/No", false)
	c.want("HEADERS 3 grpc-status=14 grpc-message=50 %25 %0A")
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	for _, one := range []*client{c, idle} {
		one.want("GOAWAY 2147483647 NO_ERROR")
		frame, err := one.ReadFrame()
		one.must(err)
		if one == c {
			c.wantEcho(5) // was on its way
		}
		one.must(one.WritePing(true, frame.(*http2.PingFrame).Data)) //nolint:forcetypeassert // the test fails then
	}
	c.want("RST_STREAM 3 NO_ERROR", "GOAWAY 5 NO_ERROR")
	idle.want("GOAWAY 0 NO_ERROR", "closed")
	c.call(7, "/a/Echo", 1) // is ignored
	c.want("RST_STREAM 7 STREAM_CLOSED")
	close(leave)
	c.want("HEADERS 1", "DATA 1 5", "HEADERS 1 grpc-status=0", "closed")
	c.Close()
	idle.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the server accepts connections")
	}
}

func TestShutdown_AbortsCallsAfterItsDeadline(t *testing.T) {
	o := settings()
	running, leave := make(chan struct{}, 9), make(chan struct{})
	o.Methods["/a/Stuck"] = Method{Serve: stuck(running, leave)}
	o.MaxStreams = 1
	s, address := serve(t, o)
	c := dial(t, address)
	c.call(1, "/a/Stuck", 1)
	<-running
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	c.open(3, "/a/Echo", false) // waits for stream 1
	handshake, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer handshake.Close()
	fixture.Await(t, "both connections are accepted", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 2
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("too late"))
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	<-ctx.Done()
	fixture.Await(t, "the connections are closed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
	select {
	case err := <-stopped:
		t.Errorf("a call runs after Shutdown has returned %v", err)
	default:
	}
	close(leave)
	if err := <-stopped; err == nil || err.Error() != "too late" {
		t.Errorf("error %v", err)
	}
}

// The connection ends with its last stream, also if that has no response.
func TestShutdown_EndsWhenTheLastCallIsReset(t *testing.T) {
	for name, complete := range map[string]bool{"a complete call": true, "an incomplete call": false} {
		t.Run(name, func(t *testing.T) {
			s, address := serve(t, settings())
			c := dial(t, address)
			c.open(1, "/a/Wait", false)
			c.must(c.WriteData(1, complete, message(0)))
			c.wantEcho(3)
			stopped := make(chan error, 1)
			go func() { stopped <- s.Shutdown(t.Context()) }()
			c.want("GOAWAY 2147483647 NO_ERROR", "PING")
			c.must(c.WritePing(true, drainPing))
			c.want("GOAWAY 3 NO_ERROR")
			c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
			c.want("closed")
			c.Close()
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	}
}

// A client that does not read delays neither the others nor the end.
func TestShutdown_DoesNotWaitForClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns []net.Conn
		for range 3 {
			ours, theirs := net.Pipe()
			conns = append(conns, theirs)
			go func() {
				_, _ = ours.Write(append([]byte(http2.ClientPreface), appendSettings(nil)...))
				_, _ = io.ReadFull(ours, make([]byte, 100)) // only the settings
			}()
		}
		o := settings()
		o.WriteTimeout = time.Minute
		s := New(o)
		served := make(chan error, 1)
		go func() { served <- s.Serve(connection.PipeListener(conns...)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Shutdown(ctx); err == nil {
			t.Error("no error")
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("Shutdown returned after %v", took)
		}
		<-served
	})
}

func TestServer_ClosesConnectionsWithoutAHandshake(t *testing.T) {
	for name, sent := range map[string]string{
		"silent":      "",
		"slow":        http2.ClientPreface[:10],
		"no settings": http2.ClientPreface,
		"HTTP/1.1":    "GET / HTTP/1.1\r\nHost: limiter\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				s := New(settings())
				served := make(chan error, 1)
				go func() { served <- s.Serve(connection.PipeListener(theirs)) }()
				go func() { _, _ = ours.Write([]byte(sent)) }() // fails when the server closes the connection
				began := time.Now()
				for {
					if _, err := ours.Read(make([]byte, 100)); err != nil {
						break
					}
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("closed after %v, want at most 1s", took)
				}
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-served; !errors.Is(err, ErrStopped) {
					t.Error(err)
				}
			})
		})
	}
}

func TestServer_TheFirstFrameIsSETTINGS(t *testing.T) {
	_, address := serve(t, settings())
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &client{t: t, Conn: conn, Framer: http2.NewFramer(conn, conn)}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c.must(c.WritePing(false, [8]byte{}))
	c.want("SETTINGS", "WINDOW_UPDATE", "GOAWAY 0 PROTOCOL_ERROR", "closed")
}

// secure makes a server with these options use TLS, and returns a function that connects to it.
func secure(t *testing.T, o *Options) func(address string) (net.Conn, error) {
	t.Helper()
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, errPair := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	config, errClient := files.ClientConfig()
	if err := errors.Join(errPair, errClient); err != nil {
		t.Fatal(err)
	}
	o.Credentials = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}})
	config.NextProtos = []string{"h2"}
	return func(address string) (net.Conn, error) { return tls.Dial("tcp", address, config) }
}

// overBoth runs a test without TLS and with it.
func overBoth(t *testing.T, test func(t *testing.T, o Options, dial func(address string) (net.Conn, error))) {
	t.Helper()
	t.Run("TCP", func(t *testing.T) {
		test(t, settings(), func(address string) (net.Conn, error) { return net.Dial("tcp", address) })
	})
	t.Run("TLS", func(t *testing.T) {
		o := settings()
		connect := secure(t, &o)
		test(t, o, connect)
	})
}

// connect starts a server and a client.
func connect(t *testing.T, o Options, dial func(address string) (net.Conn, error)) (*client, *Server) {
	t.Helper()
	s, address := serve(t, o)
	conn, err := dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return start(t, conn), s
}

func TestServer_ServesTLS(t *testing.T) {
	o := settings()
	dial := secure(t, &o)
	c, s := connect(t, o, dial)
	c.wantEcho(1)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	c.want("GOAWAY 2147483647 NO_ERROR", "PING")
	c.must(c.WritePing(true, drainPing))
	c.want("GOAWAY 1 NO_ERROR", "closed")
	c.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// The client gets the reason, although it has sent more: the server reads it, because TCP would reset the connection otherwise.
func TestServer_ClosesItsSideFirst(t *testing.T) {
	overBoth(t, func(t *testing.T, o Options, dial func(string) (net.Conn, error)) {
		c, s := connect(t, o, dial)
		c.must(c.WritePriority(1, http2.PriorityParam{StreamDep: 1})) // resets a stream
		c.AllowIllegalWrites = true
		c.must(c.WriteData(0, false, nil))
		for range 100 {
			c.must(c.WriteData(1, false, make([]byte, maxFrame)))
		}
		c.want("RST_STREAM 1 PROTOCOL_ERROR", "GOAWAY 0 PROTOCOL_ERROR")
		if _, err := c.ReadFrame(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the connection ended with %v", err)
		}
		c.must(c.WriteData(1, false, nil))
		c.Close()
		fixture.Await(t, "the server closes the connection", func() bool { return only(s) == nil })
	})
}

// The deadline of a read passes, and the connection is read again.
func TestServer_ServesAfterAnIdleTime(t *testing.T) {
	overBoth(t, func(t *testing.T, o Options, dial func(string) (net.Conn, error)) {
		c, s := connect(t, o, dial)
		c.wantEcho(1)
		fixture.Await(t, "the buffers of the idle connection are free", func() bool {
			server := only(s)
			server.mu.Lock()
			defer server.mu.Unlock()
			return server.out == nil && server.spare == nil
		})
		c.wantEcho(3)
	})
}

// A client that closes its side has gone, as for other servers of HTTP/2. Its calls are canceled.
func TestServer_CallsEndWithTheirClient(t *testing.T) {
	overBoth(t, func(t *testing.T, o Options, dial func(string) (net.Conn, error)) {
		running, ended := make(chan struct{}), make(chan error, 1)
		o.Methods["/a/Wait"] = Method{Serve: func(ctx context.Context, _, _ []byte) ([]byte, error) {
			close(running)
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err() //nolint:wrapcheck // as handlers of grpc-go may do
		}}
		c, s := connect(t, o, dial)
		c.call(1, "/a/Wait", 3)
		<-running
		c.must(c.Conn.(interface{ CloseWrite() error }).CloseWrite()) //nolint:forcetypeassert // the test fails then
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
		c.want("closed")
		fixture.Await(t, "the server closes the connection", func() bool { return only(s) == nil })
	})
}

// A stream that is opened while the connection stops accepting streams is served, or has its response.
func TestShutdown_ServesAStreamThatIsBeingOpened(t *testing.T) {
	for name, admitted := range map[string]bool{"admitted": true, "rejected": false} {
		t.Run(name, func(t *testing.T) {
			o := settings()
			opening := make(chan *conn, 1)
			method := o.Methods["/a/Echo"]
			method.Rejected = status.New(codes.Unavailable, "")
			method.Announce = func(ctx context.Context) (context.Context, bool) {
				server := <-opening
				server.drain()
				server.refuse()
				return ctx, admitted
			}
			o.Methods["/a/Echo"] = method
			s, address := serve(t, o)
			c := dial(t, address)
			opening <- only(s)
			c.call(1, "/a/Echo", 3)
			c.want("GOAWAY 2147483647 NO_ERROR", "PING", "GOAWAY 1 NO_ERROR")
			if admitted {
				c.want("HEADERS 1", "DATA 1 8", "HEADERS 1 grpc-status=0", "closed")
			} else {
				c.want("HEADERS 1 grpc-status=14", "RST_STREAM 1 NO_ERROR", "closed")
			}
		})
	}
}

func TestServe_FailsWithItsListener(t *testing.T) {
	broken := errors.New("broken")
	s := New(settings())
	if err := s.Serve(&failing{errs: []error{&net.OpError{Op: "accept", Err: os.NewSyscallError("accept", temporaryError{})}, broken}}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Serve(&failing{}); !errors.Is(err, ErrStopped) {
		t.Errorf("after Shutdown: %v", err)
	}
}

// temporaryError is as EMFILE.
type temporaryError struct{}

func (temporaryError) Temporary() bool { return true }
func (temporaryError) Timeout() bool   { return false }
func (temporaryError) Error() string   { return "too many open files" }

// failing is a listener whose Accept fails.
type failing struct{ errs []error }

func (f *failing) Accept() (net.Conn, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}
func (*failing) Close() error   { return nil }
func (*failing) Addr() net.Addr { return &net.TCPAddr{} }
