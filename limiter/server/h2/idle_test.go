package h2

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/test/bufconn"
)

// serveMemory runs a Server in a bubble of synctest, and returns a client and the connection of the server.
func serveMemory(t *testing.T, o Options, settings ...http2.Setting) (*client, *conn) {
	t.Helper()
	listener := bufconn.Listen(8 << 10)
	s := New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	ours, err := listener.Dial()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, ours, settings...)
	if err := ours.SetDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx) // the tests of Shutdown check its error
		<-served
	})
	return c, only(s)
}

// only returns the connection of a server.
func only(s *Server) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		return c
	}
	return nil
}

func TestServer_CallsWithoutAMessageEndAtTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := settings()
		failed := make(chan error, 9)
		echo := o.Methods["/a/Echo"]
		echo.Fail = func(_ context.Context, err error) { failed <- err }
		o.Methods["/a/Echo"] = echo
		c, server := serveMemory(t, o)
		time.Sleep(10 * time.Second) // an idle connection is not checked each second
		c.open(1, "/a/Echo", false)  // has no deadline
		began := time.Now()
		c.open(3, "/a/Echo", false, "grpc-timeout", "2S")
		c.must(c.WriteData(3, false, message(9)[:7]))
		c.open(5, "/a/Wait", false, "grpc-timeout", "500m")
		c.must(c.WriteData(5, true, message(0)))
		c.want("HEADERS 5 grpc-status=4 grpc-message=context deadline exceeded") // its handler has ended it
		for range 5 {                                                            // a connection that is not silent
			time.Sleep(300 * time.Millisecond)
			c.must(c.WriteWindowUpdate(0, 1))
		}
		c.want("HEADERS 3 grpc-status=4 grpc-message=context deadline exceeded")
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("the call ended after %v, want 2 s to 3 s", took)
		}
		if err := <-failed; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call failed because of %v", err)
		}
		server.mu.Lock()
		if used := server.server.buffers.Used(); used != 2*streamCost {
			t.Errorf("%d bytes of the buffers are used", used)
		}
		server.mu.Unlock()
		c.must(c.WriteData(3, true, message(9)[7:])) // was on its way
		time.Sleep(time.Minute - time.Second)
		c.must(c.WriteData(1, true, message(3)))
		c.want("HEADERS 1", "DATA 1 8", "HEADERS 1 grpc-status=0")
	})
}

// Only the handler knows whether its work was in vain.
func TestServer_AHandlerThatRunsBeyondTheDeadlineResponds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := settings()
		o.Methods["/a/Slow"] = Method{Serve: func(_ context.Context, message, out []byte) ([]byte, error) {
			time.Sleep(3 * time.Second)
			return append(out, message...), nil
		}}
		c, _ := serveMemory(t, o)
		c.open(1, "/a/Slow", false, "grpc-timeout", "500m")
		c.must(c.WriteData(1, true, message(3)))
		c.want("HEADERS 1", "DATA 1 8", "HEADERS 1 grpc-status=0")
	})
}

// A response that waits for a window is of no use after the deadline.
func TestServer_ResponsesThatWaitEndAtTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := serveMemory(t, settings(), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		c.open(1, "/a/Echo", false, "grpc-timeout", "2S")
		c.must(c.WriteData(1, true, message(3)))
		began := time.Now()
		c.want("HEADERS 1")
		c.call(3, "/a/Echo", 3)
		c.want("HEADERS 3", "RST_STREAM 1 CANCEL")
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("the call ended after %v, want 2 s to 3 s", took)
		}
		c.must(c.WriteWindowUpdate(3, 8))
		c.want("DATA 3 8", "HEADERS 3 grpc-status=0")
		synctest.Wait()
		server.mu.Lock()
		defer server.mu.Unlock()
		if len(server.streams)+len(server.blocked) > 0 {
			t.Errorf("%d streams, of which %d wait", len(server.streams), len(server.blocked))
		}
	})
}

// kept returns the bytes of the buffers that a connection keeps. The goroutine that reads the connection must wait.
func (c *conn) kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cap(c.input.buf) + cap(c.out) + cap(c.spare) + 8*cap(c.blocked) + 40*cap(c.header.fields)
}

func TestServer_AnIdleConnectionKeepsNothingOfABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := serveMemory(t, settings(), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		parser := server.framer
		burst := func(first uint32) {
			t.Helper()
			c.must(c.WriteWindowUpdate(0, 1<<20))
			for i := range uint32(8) {
				c.call(first+2*i, "/a/Echo", 30_000)
				c.readMessage(first + 2*i)
			}
		}
		burst(1)
		synctest.Wait()
		if got := server.kept(); got < 2*minRead {
			t.Errorf("the burst needed %d bytes: the test tests nothing", got)
		}
		time.Sleep(2*checkInterval + time.Millisecond)
		synctest.Wait()
		if got := server.kept(); got > minRead {
			t.Errorf("an idle connection keeps %d bytes of buffers, want at most %d", got, minRead)
		}
		if server.framer == parser {
			t.Error("an idle connection keeps the buffer of its parser")
		}
		burst(101)
		c.open(201, "/a/Echo", true, "x", "y") // refers to the dynamic table
		c.want("HEADERS 201 grpc-status=13 grpc-message=the request has no complete message")
	})
}

// A check in the middle of a frame or of a header block must not lose its beginning.
func TestServer_ChecksLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := settings()
		o.KeepaliveAfter, o.KeepaliveTimeout = 2*time.Second, 1500*time.Millisecond // a check and a PING after each byte
		c, _ := serveMemory(t, o)
		var sent bytes.Buffer
		framer := http2.NewFramer(&sent, nil)
		c.encode(callFields()...)
		block := c.block.Bytes()
		c.must(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:9]}))
		c.must(framer.WriteContinuation(1, true, block[9:]))
		c.must(framer.WriteData(1, true, message(3)))
		for _, b := range sent.Bytes() {
			time.Sleep(3 * time.Second)
			c.want("PING")
			if _, err := c.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		c.want("HEADERS 1", "DATA 1 8", "HEADERS 1 grpc-status=0")
	})
}

// Connections end at different ages, so that not all clients connect at the same time. The server waits for a reply, and for calls, but not forever.
func TestServer_EndsOldConnections(t *testing.T) {
	youngest, oldest := time.Hour, time.Duration(0)
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			o := settings()
			o.MaxAge, o.MaxAgeGrace, o.KeepaliveAfter = 10*time.Minute, 30*time.Second, time.Hour
			o.Methods["/a/Stuck"] = Method{Serve: func(ctx context.Context, _, out []byte) ([]byte, error) {
				<-ctx.Done()
				return out, nil
			}}
			c, _ := serveMemory(t, o)
			began := time.Now()
			c.call(1, "/a/Stuck", 3)
			c.want("GOAWAY 2147483647 NO_ERROR")
			age := time.Since(began)
			youngest, oldest = min(youngest, age), max(oldest, age)
			c.want("PING", "GOAWAY 1 NO_ERROR")
			if took := time.Since(began) - age; took != drainReply {
				t.Errorf("the server refused streams after %v, want %v", took, drainReply)
			}
			c.want("closed")
			if took := time.Since(began) - age; took != o.MaxAgeGrace {
				t.Errorf("the server closed the connection after %v, want %v", took, o.MaxAgeGrace)
			}
		})
	}
	if youngest < 9*time.Minute || youngest > 9*time.Minute+40*time.Second || oldest < 10*time.Minute+20*time.Second || oldest > 11*time.Minute {
		t.Errorf("connections ended at an age of %v to %v, want 9 to 11 minutes", youngest, oldest)
	}
}

// A client that reads nothing is disconnected after WriteTimeout.
func TestServer_WritesHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := settings()
		o.WriteTimeout = 15 * time.Second
		c, server := serveMemory(t, o)
		c.call(1, "/a/Echo", 10_000)
		time.Sleep(o.WriteTimeout - time.Millisecond)
		synctest.Wait()
		if only(server.server) == nil {
			t.Error("the connection was closed before the deadline")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if only(server.server) != nil {
			t.Error("the connection is open after the deadline")
		}
	})
}

// The server reads nothing more while a handler of a stream that the client has reset runs. What it has to send is sent before.
func TestServer_WritesBeforeItWaits(t *testing.T) {
	o := settings()
	o.MaxStreams = 1
	running, leave := make(chan struct{}, 9), make(chan struct{})
	o.Methods["/a/Stuck"] = Method{Serve: stuck(running, leave)}
	_, address := serve(t, o)
	c := dial(t, address)
	c.call(1, "/a/Stuck", 1)
	<-running
	var sent bytes.Buffer // read at the same time
	framer := http2.NewFramer(&sent, nil)
	c.must(framer.WriteRSTStream(1, http2.ErrCodeCancel))
	c.must(framer.WritePing(false, [8]byte{}))
	c.encode(callFields()...)
	c.must(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.block.Bytes(), EndHeaders: true}))
	c.must(framer.WriteData(3, true, message(3)))
	if _, err := c.Write(sent.Bytes()); err != nil {
		t.Fatal(err)
	}
	c.want("PING")
	close(leave)
	c.want("HEADERS 3", "DATA 3 8", "HEADERS 3 grpc-status=0")
}
