package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// settings are options with small bounds. Its methods respond with their message: /a/Echo, and /a/Wait when the context of the call is done.
func settings() Options {
	return Options{
		Methods: map[string]Method{
			"/a/Echo":  {Serve: func(_ context.Context, message, out []byte) ([]byte, error) { return append(out, message...), nil }},
			"/a/Now":   {Inline: true, Serve: func(_ context.Context, message, out []byte) ([]byte, error) { return append(out, message...), nil }},
			"/a/Small": {MaxMessage: 100, Serve: func(_ context.Context, message, out []byte) ([]byte, error) { return append(out, message...), nil }},
			"/a/Wait": {Serve: func(ctx context.Context, _, _ []byte) ([]byte, error) {
				<-ctx.Done()
				return nil, ctx.Err() //nolint:wrapcheck // as handlers of grpc-go may do
			}},
		},
		MaxMessage: 1 << 20, MaxHeaders: 2 << 10, MaxStreams: 16, Buffers: 8 << 20, ConnectionTimeout: time.Second, WriteTimeout: time.Second,
		KeepaliveAfter: time.Minute, KeepaliveTimeout: time.Second, MinPing: 10 * time.Second, MaxAge: time.Hour, MaxAgeGrace: time.Minute,
	}
}

// serve runs a Server until the test ends, and returns its address.
func serve(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx) // the tests of Shutdown check its error
		if err := <-served; !errors.Is(err, ErrStopped) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return s, listener.Addr().String()
}

// client sends the frames of a test.
type client struct {
	t testing.TB
	net.Conn
	*http2.Framer

	encoder *hpack.Encoder
	block   bytes.Buffer
}

// dial connects.
func dial(t testing.TB, address string, settings ...http2.Setting) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return start(t, conn, settings...)
}

// start sends the preface, and reads the first frames of the server.
func start(t testing.TB, conn net.Conn, settings ...http2.Setting) *client {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, Conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.encoder = hpack.NewEncoder(&c.block)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c.must(c.WriteSettings(settings...))
	c.want("SETTINGS", "WINDOW_UPDATE", "SETTINGS")
	return c
}

func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// callFields returns the fields of a call, with more fields.
func callFields(more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":path", "/a/Echo", ":authority", "limiter", "content-type", "application/grpc"}, more...)
}

// encode sets the header block.
func (c *client) encode(fields ...string) {
	c.block.Reset()
	for field := range slices.Chunk(fields, 2) {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // a bytes.Buffer does not fail
	}
}

// header sends a header block.
func (c *client) header(stream uint32, end bool, fields ...string) {
	c.t.Helper()
	c.encode(fields...)
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: end}))
}

// open sends the header of a call, with more fields.
func (c *client) open(stream uint32, path string, end bool, more ...string) {
	c.t.Helper()
	fields := callFields(append([]string{"te", "trailers"}, more...)...)
	fields[5] = path
	c.header(stream, end, fields...)
}

// message returns a message of n bytes with its header.
func message(n int) []byte {
	return append(appendMessageHeader(nil, n), bytes.Repeat([]byte{'x'}, n)...)
}

// call sends a call with a message of n bytes.
func (c *client) call(stream uint32, path string, n int) {
	c.t.Helper()
	c.open(stream, path, false)
	for body := message(n); ; {
		part := body[:min(len(body), maxFrame)]
		body = body[len(part):]
		c.must(c.WriteData(stream, len(body) == 0, part))
		if len(body) == 0 {
			return
		}
	}
}

// read returns a description of the next frame.
func (c *client) read() string {
	c.t.Helper()
	frame, err := c.ReadFrame()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "nothing"
		}
		return "closed"
	}
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		words := []string{"HEADERS", strconv.FormatUint(uint64(f.StreamID), 10)}
		for _, field := range f.Fields {
			if field.Name != "content-type" && field.Value != "200" {
				words = append(words, field.Name+"="+field.Value)
			}
		}
		return strings.Join(words, " ")
	case *http2.DataFrame:
		return fmt.Sprintf("DATA %d %d", f.StreamID, len(f.Data()))
	case *http2.RSTStreamFrame:
		return fmt.Sprintf("RST_STREAM %d %v", f.StreamID, f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Sprintf("GOAWAY %d %v", f.LastStreamID, f.ErrCode)
	default:
		return frame.Header().Type.String()
	}
}

// want compares the next frames.
func (c *client) want(frames ...string) {
	c.t.Helper()
	for _, want := range frames {
		if got := c.read(); got != want {
			c.t.Fatalf("the server sent %q, want %q", got, want)
		}
	}
}

// wantEcho checks that a call is served.
func (c *client) wantEcho(stream uint32) {
	c.t.Helper()
	c.call(stream, "/a/Echo", 3)
	c.want(fmt.Sprint("HEADERS ", stream), fmt.Sprintf("DATA %d 8", stream), fmt.Sprintf("HEADERS %d grpc-status=0", stream))
}

// rejecting is a method that admits no call.
func rejecting() Method {
	return Method{
		Announce: func(ctx context.Context) (context.Context, bool) { return ctx, false },
		Rejected: status.New(codes.Unavailable, "50 % \n"),
	}
}

// writeCall sends a call with a message that fits into a frame, and returns the error of the connection.
func (c *client) writeCall(stream uint32, path string, n int) error {
	fields := callFields()
	fields[5] = path
	c.encode(fields...)
	headers := http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndHeaders: true}
	return errors.Join(c.WriteHeaders(headers), c.WriteData(stream, true, message(n)))
}

// stuck returns a handler that ends when leave is closed, whatever happens to its call.
func stuck(running, leave chan struct{}) func(context.Context, []byte, []byte) ([]byte, error) {
	return func(_ context.Context, _, out []byte) ([]byte, error) {
		running <- struct{}{}
		<-leave
		return out, nil
	}
}

// readOnly is a connection from which a test can only read.
type readOnly struct {
	net.Conn
	io.Reader
}

func (r *readOnly) Read(p []byte) (int, error) { return r.Reader.Read(p) } //nolint:wrapcheck // a test
