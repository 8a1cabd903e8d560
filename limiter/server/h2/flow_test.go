package h2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// readMessage reads the frames of the response on a stream and returns the size of its message, with its header.
func (c *client) readMessage(stream uint32) int {
	c.t.Helper()
	size := 0
	for {
		got := c.read()
		if got == fmt.Sprint("HEADERS ", stream) {
			continue
		}
		if got == fmt.Sprintf("HEADERS %d grpc-status=0", stream) {
			return size
		}
		n := 0
		if _, err := fmt.Sscanf(got, fmt.Sprintf("DATA %d %%d", stream), &n); err != nil && got != "WINDOW_UPDATE" {
			c.t.Fatalf("the server sent %q", got)
		}
		size += n
	}
}

func TestServer_LargeMessages(t *testing.T) {
	for _, path := range []string{"/a/Echo", "/a/Now"} {
		t.Run(path, func(t *testing.T) {
			s, address := serve(t, settings())
			c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24})
			c.must(c.WriteWindowUpdate(0, 1<<24))
			for i := range uint32(8) { // more than the window of the connection
				const size = 1 << 20
				go c.call(2*i+1, path, size)
				if got := c.readMessage(2*i + 1); got != size+messageHeader {
					t.Fatalf("call %d got %d bytes", i, got)
				}
			}
			wantIdle(t, s)
		})
	}
}

func TestServer_ResponsesWaitForWindows(t *testing.T) {
	for _, path := range []string{"/a/Echo", "/a/Now"} {
		t.Run(path, func(t *testing.T) {
			s, address := serve(t, settings())
			c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
			c.call(1, path, 20)
			c.want("HEADERS 1", "DATA 1 10")
			s.mu.Lock()
			for server := range s.conns {
				server.mu.Lock()
				if server.streams[1].message != nil {
					t.Error("the message is kept, although only its response is needed")
				}
				server.mu.Unlock()
			}
			s.mu.Unlock()
			c.must(c.WriteWindowUpdate(1, 5))
			c.want("DATA 1 5")
			c.must(c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 8})) // the window is -2
			c.want("SETTINGS")
			c.must(c.WriteWindowUpdate(1, 5))
			c.want("DATA 1 3")
			c.must(c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}))
			c.want("SETTINGS", "DATA 1 7", "HEADERS 1 grpc-status=0")
			wantIdle(t, s)
		})
	}
}

func TestServer_ResponsesWaitForTheWindowOfTheConnection(t *testing.T) {
	s, address := serve(t, settings())
	c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	c.call(1, "/a/Echo", 70_000)
	c.want("HEADERS 1", "DATA 1 16384", "DATA 1 16384", "DATA 1 16384", "DATA 1 16383")
	c.call(3, "/a/Echo", 1)
	c.want("HEADERS 3")
	c.must(c.WriteWindowUpdate(0, 4471))
	c.want("DATA 1 4470", "HEADERS 1 grpc-status=0", "DATA 3 1")
	c.must(c.WriteRSTStream(3, http2.ErrCodeCancel))
	wantIdle(t, s)
}

func TestServer_RejectsInvalidWindows(t *testing.T) {
	for name, test := range map[string]struct {
		send func(c *client)
		want string
	}{
		"of the connection": {func(c *client) { c.must(c.WriteWindowUpdate(0, 1<<31-1)) }, "GOAWAY 1 FLOW_CONTROL_ERROR"},
		"of a stream":       {func(c *client) { c.must(c.WriteWindowUpdate(1, 1<<31-1)) }, "RST_STREAM 1 FLOW_CONTROL_ERROR"},
		"initial": {func(c *client) {
			c.must(c.WriteWindowUpdate(1, 1<<30))
			c.must(c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}))
		}, "GOAWAY 1 FLOW_CONTROL_ERROR"},
		"a setting": {func(c *client) {
			c.must(c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}))
		}, "GOAWAY 1 FLOW_CONTROL_ERROR"},
		"of an idle stream": {func(c *client) { c.must(c.WriteWindowUpdate(3, 1)) }, "GOAWAY 1 PROTOCOL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			_, address := serve(t, settings())
			c := dial(t, address)
			c.open(1, "/a/Echo", false)
			test.send(c)
			c.want(test.want)
		})
	}
}

// The bytes of a stream and of a connection are bounded whatever the client sends.
func TestServer_ClientsCannotExceedTheirWindows(t *testing.T) {
	o := settings()
	o.MaxMessage = 100 << 10
	_, address := serve(t, o)
	part := make([]byte, maxFrame)
	c := dial(t, address)
	c.wantEcho(1)
	c.open(3, "/a/Echo", false)
	c.must(c.WriteData(3, false, append([]byte{0, 0, 1, 144, 0}, part[5:]...))) // of a message that fits
	for range 6 {
		c.must(c.WriteData(3, false, part))
	}
	c.want("RST_STREAM 3 FLOW_CONTROL_ERROR")
	c.wantEcho(5)
}

// Messages that are never complete take at most the buffers of the server, and a connection takes at most its part if they are used up.
func TestServer_IncompleteMessagesAreBounded(t *testing.T) {
	o := settings()
	o.Buffers = 4<<20 + 5*streamCost
	s, address := serve(t, o)
	c := dial(t, address)
	reset := make(chan string, 1)
	go func() {
		for {
			if got := c.read(); got != "WINDOW_UPDATE" {
				reset <- got
				return
			}
		}
	}()
	for i := range uint32(5) {
		c.open(2*i+1, "/a/Echo", false)
		body := message(1 << 20)
		for body = body[:len(body)-10]; len(body) > 0; body = body[min(len(body), maxFrame):] {
			c.must(c.WriteData(2*i+1, false, body[:min(len(body), maxFrame)]))
		}
	}
	if got := <-reset; got != "RST_STREAM 9 ENHANCE_YOUR_CALM" {
		t.Errorf("the server sent %q", got)
	}
	if used := s.buffers.Used(); used > int64(o.Buffers) {
		t.Errorf("the connections hold %d bytes", used)
	}
	other := dial(t, address)
	other.call(1, "/a/Echo", 100<<10)
	other.want("HEADERS 1")
}

// Padding takes no part of a message's window.
func TestServer_PaddingIsNoPartOfAMessage(t *testing.T) {
	o := settings()
	o.MaxMessage = 100 << 10
	s, address := serve(t, o)
	c := dial(t, address)
	c.open(1, "/a/Echo", false)
	c.must(c.WriteData(1, false, message(600)[:messageHeader]))
	go func() {
		for i := range 600 {
			_ = c.WriteDataPadded(1, i == 599, []byte{'x'}, bytes.Repeat([]byte{0}, 255)) // the responses fail then
		}
	}()
	for {
		if got := c.read(); strings.HasPrefix(got, "HEADERS 1 ") {
			if got != "HEADERS 1 grpc-status=0" {
				t.Errorf("the server sent %q", got)
			}
			break
		} else if got == "closed" {
			t.Fatal("the connection was closed")
		}
	}
	wantIdle(t, s)
}

// A client whose table has less than the default size must reject a header block that does not begin with the new size, as Node and nghttp2 do.
func TestServer_ConfirmsASmallerHeaderTable(t *testing.T) {
	size := func(n uint32) http2.Setting { return http2.Setting{ID: http2.SettingHeaderTableSize, Val: n} }
	for name, test := range map[string]struct {
		preface, later []http2.Setting
		want           []bool // whether the first block of each of two calls confirms a size
	}{
		"the default":                        {want: []bool{false, false}},
		"a larger table":                     {preface: []http2.Setting{size(65536)}, want: []bool{false, false}},
		"no table":                           {preface: []http2.Setting{size(0)}, want: []bool{true, false}},
		"a smaller table":                    {preface: []http2.Setting{size(1024)}, want: []bool{true, false}},
		"smaller for a moment":               {preface: []http2.Setting{size(0), size(4096)}, want: []bool{true, false}},
		"smaller in mid-connection":          {later: []http2.Setting{size(100)}, want: []bool{false, true}},
		"smaller again, which needs nothing": {preface: []http2.Setting{size(1024)}, later: []http2.Setting{size(0)}, want: []bool{true, false}},
	} {
		for _, path := range []string{"/a/Echo", "/a/Now"} {
			t.Run(name+" "+path, func(t *testing.T) {
				_, address := serve(t, settings())
				c := dial(t, address, test.preface...)
				c.ReadMetaHeaders = nil // to see the bytes of header blocks
				for i, want := range test.want {
					if i == 1 && test.later != nil {
						c.must(c.WriteSettings(test.later...))
					}
					stream := uint32(2*i + 1)
					c.call(stream, path, 1)
					if block := c.firstBlock(stream); (block[0] == emptyTable) != want {
						t.Errorf("call %d: the header block begins with %#x, want a size of the table: %t", i, block[0], want)
					}
				}
			})
		}
	}
}

// firstBlock reads the response on a stream and returns its first header block.
func (c *client) firstBlock(stream uint32) (block []byte) {
	c.t.Helper()
	for {
		frame, err := c.ReadFrame()
		c.must(err)
		headers, is := frame.(*http2.HeadersFrame)
		switch {
		case is && headers.StreamID == stream && block == nil:
			block = bytes.Clone(headers.HeaderBlockFragment())
		case is && headers.StreamID == stream && headers.StreamEnded():
			return block
		}
	}
}

// A client without a window cannot make the server hold more responses than the buffers.
func TestServer_ResponsesWithoutAWindowAreBounded(t *testing.T) {
	o := settings()
	o.Buffers = 100 << 10
	s, address := serve(t, o)
	c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range uint32(3) {
		c.call(2*i+1, "/a/Echo", 40<<10)
	}
	for range 3 {
		switch got := c.read(); got {
		case "HEADERS 1", "HEADERS 3", "HEADERS 5":
		case "RST_STREAM 1 ENHANCE_YOUR_CALM", "RST_STREAM 3 ENHANCE_YOUR_CALM", "RST_STREAM 5 ENHANCE_YOUR_CALM":
			if used := s.buffers.Used(); used > int64(o.Buffers) {
				t.Errorf("the server holds %d bytes", used)
			}
			return
		default:
			t.Fatalf("the server sent %q", got)
		}
	}
	t.Error("the server holds all responses")
}

func TestServer_OnlyTheLastWindowOfAFrameCounts(t *testing.T) {
	_, address := serve(t, settings())
	c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	c.call(1, "/a/Echo", 3)
	c.want("HEADERS 1", "DATA 1 8", "HEADERS 1 grpc-status=0")
	window := func(n uint32) http2.Setting { return http2.Setting{ID: http2.SettingInitialWindowSize, Val: n} }
	c.must(c.WriteSettings(window(0), window(1<<20), window(2)))
	c.want("SETTINGS")
	c.call(3, "/a/Echo", 3)
	c.want("HEADERS 3", "DATA 3 2")
}

func TestServer_BoundsTheSettingsOfAFrame(t *testing.T) {
	_, address := serve(t, settings())
	many := make([]http2.Setting, maxSettings+1)
	for i := range many {
		many[i] = http2.Setting{ID: 0x99, Val: uint32(i)}
	}
	c := dial(t, address)
	c.must(c.WriteSettings(many[1:]...))
	c.want("SETTINGS")
	c.must(c.WriteSettings(many...))
	c.want("GOAWAY 0 ENHANCE_YOUR_CALM")
}
