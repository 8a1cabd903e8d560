package h2

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func TestServer_EndsFloods(t *testing.T) {
	for name, test := range map[string]struct {
		send func(c *client) error
		most int // frames until the end
	}{
		"PING":            {func(c *client) error { return c.WritePing(false, [8]byte{}) }, 5},
		"replies to PING": {func(c *client) error { return c.WritePing(true, [8]byte{}) }, 2*maxSpent + 5},
		"SETTINGS":        {func(c *client) error { return c.WriteSettings() }, 2*maxSpent + 5},
		"replies":         {func(c *client) error { return c.WriteSettingsAck() }, 2*maxSpent + 5},
		"PRIORITY":        {func(c *client) error { return c.WritePriority(1, http2.PriorityParam{}) }, 2*maxSpent + 5},
		"WINDOW_UPDATE":   {func(c *client) error { return c.WriteWindowUpdate(1, 1) }, 2*maxSpent + 5},
		"RST_STREAM":      {func(c *client) error { return c.WriteRSTStream(1, 0) }, 2*maxSpent + 5},
		"an unknown type": {func(c *client) error { return c.WriteRawFrame(99, 0, 1, nil) }, 2*maxSpent + 5},
		"empty DATA":      {func(c *client) error { return c.WriteData(1, false, nil) }, 2*maxSpent + 5},
		"DATA of a byte":  {func(c *client) error { return c.WriteData(1, false, []byte{0}) }, 2*maxSpent + 5},
		"padding":         {func(c *client) error { return c.WriteDataPadded(1, false, nil, []byte{0}) }, 2*maxSpent + 5},
		"empty CONTINUATION": {func(c *client) error {
			return c.WriteRawFrame(http2.FrameContinuation, 0, 3, nil)
		}, maxFragments + 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, address := serve(t, settings())
			c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
			c.open(1, "/a/Echo", false)
			if strings.HasSuffix(name, "CONTINUATION") {
				c.must(c.WriteRawFrame(http2.FrameHeaders, 0, 3, nil))
			}
			go func() {
				for range test.most {
					if test.send(c) != nil {
						return
					}
				}
			}()
			for {
				got := c.read()
				if strings.HasPrefix(got, "GOAWAY") && got != "GOAWAY 1 ENHANCE_YOUR_CALM" || got == "closed" {
					t.Fatalf("the server sent %q", got)
				}
				if strings.HasPrefix(got, "GOAWAY") {
					return
				}
			}
		})
	}
}

// Frames of streams that the server has reset, and calls that are not answered, earn nothing.
func TestServer_StreamsThatHaveEndedEarnNothing(t *testing.T) {
	for name, send := range map[string]func(c *client, n uint32) error{
		"HEADERS of a stream that was reset": func(c *client, _ uint32) error {
			c.encode(callFields()...)
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: true})
		},
		"DATA of a stream that was reset": func(c *client, _ uint32) error { return c.WriteData(1, false, make([]byte, 2*largeData)) },
		"streams that the server resets": func(c *client, n uint32) error {
			c.encode(callFields("connection", "close")...)
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 3, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: true})
		},
		"RST_STREAM of a stream that has ended": func(c *client, _ uint32) error { return c.WriteRSTStream(1, http2.ErrCodeCancel) },
	} {
		t.Run(name, func(t *testing.T) {
			_, address := serve(t, settings())
			c := dial(t, address)
			c.open(1, "/a/Echo", true, "connection", "close")
			c.want("RST_STREAM 1 PROTOCOL_ERROR")
			go func() {
				for n := range uint32(3 * maxSpent) {
					if send(c, n) != nil {
						return
					}
				}
			}()
			for {
				got := c.read()
				if strings.HasPrefix(got, "GOAWAY") && strings.HasSuffix(got, "ENHANCE_YOUR_CALM") {
					return
				}
				if !strings.HasPrefix(got, "RST_STREAM") && got != "WINDOW_UPDATE" {
					t.Fatalf("the server sent %q", got)
				}
			}
		})
	}
}

// An honest client sends the same frames, but also calls.
func TestServer_CallsPayForFrames(t *testing.T) {
	_, address := serve(t, settings())
	c := dial(t, address)
	for i := range uint32(2 * maxSpent) {
		c.must(c.WriteWindowUpdate(0, 8))
		c.must(c.WritePing(false, [8]byte{})) // as the client of grpc-go measures the latency
		c.want("PING")
		c.wantEcho(2*i + 1)
	}
}

// The client of grpc-go sends a PING for DATA, and renews windows, for each part of a large message.
func TestServer_PartsOfALargeMessagePayForFrames(t *testing.T) {
	o := settings()
	o.MaxMessage = 4 << 20
	o.Buffers = 8 << 20
	_, address := serve(t, o)
	c := dial(t, address)
	go func() {
		for got := ""; got != "closed"; got = c.read() {
			continue
		}
	}()
	for i := range uint32(20) {
		c.open(2*i+1, "/a/Wait", false)
		c.must(c.WriteData(2*i+1, false, []byte{0, 0, 64, 0, 0}))
		for range 100 {
			c.must(c.WriteData(2*i+1, false, make([]byte, largeData)))
			c.must(c.WriteWindowUpdate(0, 1))
		}
		c.must(c.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
	}
	c.must(c.SetReadDeadline(time.Now()))
}

func TestBudget_IsRenewed(t *testing.T) {
	b := budget{}
	for range maxSpent + 1 {
		if err := b.spend(); err != nil {
			t.Fatal(err)
		}
	}
	b.spent = maxSpent
	if b.spend() == nil {
		t.Error("the budget was renewed twice within its interval")
	}
	b.refilled = time.Now().Add(-refill)
	if err := b.spend(); err != nil {
		t.Error(err)
	}
}

func TestServer_RefusesStreamsOverTheBound(t *testing.T) {
	o := settings()
	s, address := serve(t, o)
	c := dial(t, address)
	for i := range uint32(o.MaxStreams) {
		c.open(2*i+1, "/a/Echo", false)
	}
	last := uint32(2*o.MaxStreams + 1)
	c.call(last, "/a/Echo", 1)
	c.want(fmt.Sprintf("RST_STREAM %d REFUSED_STREAM", last))
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	c.wantEcho(last + 2)
	for i := range uint32(o.MaxStreams) {
		c.must(c.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
	}
	wantIdle(t, s)
}

// A reset stream counts until its handler has ended: the client that opens another one waits.
func TestServer_ResetStreamsCountUntilTheirHandlerEnds(t *testing.T) {
	o := settings()
	running, leave := make(chan struct{}, 100), make(chan struct{})
	o.Methods["/a/Stuck"] = Method{Serve: stuck(running, leave)}
	s, address := serve(t, o)
	c := dial(t, address)
	for i := range uint32(o.MaxStreams) {
		c.call(2*i+1, "/a/Stuck", 1)
		<-running
		c.must(c.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
	}
	last := uint32(2*o.MaxStreams + 1)
	c.call(last, "/a/Stuck", 1)
	select {
	case <-running:
		t.Error("one more handler runs")
	case <-time.After(50 * time.Millisecond): // long enough to see a handler that should not run
	}
	close(leave)
	c.want(fmt.Sprint("HEADERS ", last), fmt.Sprintf("DATA %d 5", last), fmt.Sprintf("HEADERS %d grpc-status=0", last))
	wantIdle(t, s)
}

func TestServer_HeaderListsAreBounded(t *testing.T) {
	_, address := serve(t, settings())
	c := dial(t, address)
	c.open(1, "/a/Echo", true, "x", strings.Repeat("x", 2<<10))
	c.want("RST_STREAM 1 FRAME_SIZE_ERROR")
	c.wantEcho(3) // the state of HPACK is right
	var bomb []string
	for range 40 { // indexed after the first
		bomb = append(bomb, "x", strings.Repeat("y", 100))
	}
	c.open(5, "/a/Echo", true, bomb...)
	c.want("RST_STREAM 5 FRAME_SIZE_ERROR")
	c.wantEcho(7)
	c.encoder.SetMaxDynamicTableSize(0)
	c.open(9, "/a/Echo", true, "x", strings.Repeat("~", 5<<10))
	c.want("GOAWAY 7 ENHANCE_YOUR_CALM")
}

// A client that does not read its responses is disconnected, and holds little memory until then.
func TestServer_ClientsMustReadTheirResponses(t *testing.T) {
	o := settings()
	o.WriteTimeout = 300 * time.Millisecond
	s, address := serve(t, o)
	c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	c.must(c.WriteWindowUpdate(0, 1<<31-1-65535))
	began := time.Now()
	for i := range uint32(1 << 20) {
		c.block.Reset()
		if c.writeCall(2*i+1, "/a/Echo", 10_000) != nil {
			break
		}
		s.mu.Lock()
		for c := range s.conns {
			c.mu.Lock()
			if n := len(c.out); n > mostOut+o.MaxStreams*12_000 {
				t.Errorf("the server holds %d bytes", n)
			}
			c.mu.Unlock()
		}
		s.mu.Unlock()
	}
	if took := time.Since(began); took < o.WriteTimeout || took > 10*time.Second {
		t.Errorf("the connection was closed after %v", took)
	}
}

func TestWaitForRoom_ContinuesAtTheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if it waits
		c := &conn{server: New(settings()), held: maxHeld}
		c.changed = sync.NewCond(&c.mu)
		c.writing, c.out = true, make([]byte, mostOut)
		if !c.waitForRoom() {
			t.Error("the connection is closed")
		}
	})
}

func TestWaitForRoom_SleepsUntilMessagesTakeLessMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &conn{server: New(settings()), held: maxHeld + 1}
		c.changed = sync.NewCond(&c.mu)
		open := make(chan bool, 1)
		go func() { open <- c.waitForRoom() }()
		synctest.Wait()
		if len(open) > 0 {
			t.Error("did not wait")
		}
		c.mu.Lock()
		c.held = maxHeld
		c.changed.Broadcast()
		c.mu.Unlock()
		if !<-open {
			t.Error("the connection is closed")
		}
	})
}
