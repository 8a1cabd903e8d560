package envoy

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-dev/weir/test/fixture/connection"
)

// rawClient is an HTTP/2 client that does only what a test asks for. The client of grpc-go sends no keepalive before 10 s have passed.
type rawClient struct {
	framer  *http2.Framer
	mu      sync.Mutex    // of writes
	replies bool          // replies to pings
	frames  chan received // closed when the server has closed the connection
	ended   time.Duration // when that happened; valid after frames is closed
	last    received      // by next
}

type received struct {
	frame string // "ping" of the server, or "goaway ERROR_CODE"
	after time.Duration
}

// dialRaw serves a connection in memory. Call it in a bubble of synctest.
func dialRaw(t *testing.T, replies bool) *rawClient {
	t.Helper()
	ours, theirs := net.Pipe()
	server := NewServer(Options{Engine: newEngine(t, noon()), Log: slog.New(slog.DiscardHandler), Transport: transportOfTests})
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Run(ctx, connection.PipeListener(theirs)) }()
	c := &rawClient{framer: http2.NewFramer(ours, ours), replies: replies, frames: make(chan received, 100)}
	t.Cleanup(func() {
		ours.Close()
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	go c.read(time.Now())
	if _, err := ours.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := c.write(func() error { return c.framer.WriteSettings() }); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *rawClient) read(began time.Time) {
	defer close(c.frames)
	defer func() { c.ended = time.Since(began) }()
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			if f.IsAck() {
				continue
			}
			c.frames <- received{"ping", time.Since(began)}
			if c.replies {
				data := f.Data
				go func() { _ = c.write(func() error { return c.framer.WritePing(true, data) }) }() // fails only after the connection was closed
			}
		case *http2.GoAwayFrame:
			c.frames <- received{"goaway " + f.ErrCode.String(), time.Since(began)}
		}
	}
}

func (c *rawClient) write(frames func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frames()
}

// next returns the next frame that was received, "" if there is no frame, or "closed".
func (c *rawClient) next() string {
	synctest.Wait()
	select {
	case frame, open := <-c.frames:
		if !open {
			return "closed"
		}
		c.last = frame
		return frame.frame
	default:
		return ""
	}
}

// open opens a stream that does not end.
func (c *rawClient) open(t *testing.T) {
	t.Helper()
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for _, field := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName},
		{":authority", "limiter"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	err := c.write(func() error {
		headers := http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true}
		return c.framer.WriteHeaders(headers)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestServer_RejectsKeepalivesThatAreFasterThanDocumented(t *testing.T) {
	for name, test := range map[string]struct {
		every time.Duration
		want  string
	}{
		"every 10 s":  {10 * time.Second, ""},
		"every 9.9 s": {9900 * time.Millisecond, "goaway ENHANCE_YOUR_CALM"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := dialRaw(t, true)
				for range 12 { // two minutes
					time.Sleep(test.every)
					_ = c.write(func() error { return c.framer.WritePing(false, [8]byte{1}) }) // fails after the server has closed the connection
				}
				if got := c.next(); got != test.want {
					t.Errorf("the server sent %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestServer_ClosesConnectionsOfCallersThatDisappeared checks that a caller whose host crashed does not hold a connection for long.
func TestServer_ClosesConnectionsOfCallersThatDisappeared(t *testing.T) {
	for name, test := range map[string]struct {
		replies bool
		open    time.Duration // the age at which the connection is still open
		closed  time.Duration // the age at which the server has closed it; 0 if it has not
	}{
		"a silent caller":          {false, 69 * time.Second, 71 * time.Second},
		"an idle caller that runs": {true, 5 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := dialRaw(t, test.replies)
				if ping := <-c.frames; ping != (received{"ping", time.Minute}) {
					t.Fatalf("received %v, want a ping after a minute", ping)
				}
				time.Sleep(test.open - time.Minute)
				frame := c.next()
				for frame == "ping" {
					frame = c.next()
				}
				if frame != "" {
					t.Fatalf("received %q before %v", frame, test.open)
				}
				if test.closed == 0 {
					return
				}
				time.Sleep(test.closed - test.open)
				if got := c.next(); got != "closed" {
					t.Errorf("the connection of a caller that did not reply is open after %v: %q", test.closed, got)
				}
			})
		})
	}
}

// TestServer_EndsCallsOnOldConnectionsAfterAGracePeriod checks that a stream that never ends does not keep an old connection open.
func TestServer_EndsCallsOnOldConnectionsAfterAGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialRaw(t, true)
		c.open(t)
		time.Sleep(12 * time.Minute)
		var goaway time.Duration
		frame := c.next()
		for ; frame != "" && frame != "closed"; frame = c.next() {
			if frame == "goaway NO_ERROR" && goaway == 0 {
				goaway = c.last.after
			}
		}
		if frame != "closed" {
			t.Fatal("the connection is open after 12 minutes")
		}
		if goaway < 9*time.Minute || goaway > 11*time.Minute {
			t.Errorf("the server asked for a new connection after %v, want ten minutes ± 10 %%", goaway)
		}
		if grace := c.ended - goaway; grace < 30*time.Second || grace > 32*time.Second { // gRPC closes it within a second
			t.Errorf("the server closed the connection %v later, want 30s", grace)
		}
	})
}
