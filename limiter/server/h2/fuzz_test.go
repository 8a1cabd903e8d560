package h2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-dev/weir/test/fixture"
)

// FuzzServer_KeepsNothingOfAConnection sends any bytes after the preface. The server must not panic, and nothing of the connection is left
// after its end: no stream, no bytes of messages, no goroutine.
func FuzzServer_KeepsNothingOfAConnection(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		ours, theirs := net.Pipe()
		o := settings()
		o.Methods["/a/No"] = rejecting()
		s := New(o)
		c := newConn(s, theirs)
		if !s.add(c) {
			t.Fatal("the server was stopped")
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer s.running.Done()
			c.run()
		}()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		_ = ours.SetWriteDeadline(time.Now().Add(5 * time.Second))
		for _, part := range [][]byte{[]byte(http2.ClientPreface), appendSettings(nil), sent} {
			_, err := ours.Write(part) // fails if the server has closed the connection
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("the server does not read: %v", err)
			}
		}
		ours.Close()
		<-ended
		s.workers.stop()
		fixture.Await(t, "all calls have ended", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.streams)+c.resets+c.held == 0 && s.buffers.Used() == 0
		})
	})
}

// seeds are frames of calls and of errors.
func seeds() [][]byte {
	var block bytes.Buffer
	header := func(fields ...string) []byte {
		block.Reset()
		encoder := hpack.NewEncoder(&block)
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a bytes.Buffer does not fail
		}
		return bytes.Clone(block.Bytes())
	}
	call := func(path string) []byte {
		return header(":method", "POST", ":scheme", "http", ":path", path, ":authority", "a", "content-type", "application/grpc", "grpc-timeout", "1m")
	}
	var all [][]byte
	add := func(frames ...func(fr *http2.Framer) error) {
		var b bytes.Buffer
		framer := http2.NewFramer(&b, nil)
		framer.AllowIllegalWrites = true
		for _, write := range frames {
			_ = write(framer) // a bytes.Buffer does not fail
		}
		all = append(all, b.Bytes())
	}
	open := func(id uint32, block []byte, end bool) func(*http2.Framer) error {
		return func(fr *http2.Framer) error {
			return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: end})
		}
	}
	data := func(id uint32, end bool, b []byte) func(*http2.Framer) error {
		return func(fr *http2.Framer) error { return fr.WriteData(id, end, b) }
	}
	reset := func(id uint32) func(*http2.Framer) error {
		return func(fr *http2.Framer) error { return fr.WriteRSTStream(id, http2.ErrCodeCancel) }
	}
	for _, path := range []string{"/a/Echo", "/a/Wait", "/a/No", "/a/Now", "/b/Other"} {
		add(open(1, call(path), false), data(1, true, message(9)), open(3, call(path), true), open(5, call(path), false), data(5, false, message(9)[:7]), reset(1), reset(5))
		add(open(1, call(path), false), data(1, false, message(9)), open(1, header("x", "y"), true), data(1, true, nil))
	}
	add(open(1, header(":method", "GET", ":path", "/", ":scheme", "http"), true), open(3, header("X", "y"), true))
	add(func(fr *http2.Framer) error {
		return fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
	}, open(1, call("/a/Echo"), false), data(1, true, message(9)), func(fr *http2.Framer) error { return fr.WriteWindowUpdate(1, 100) }, reset(1))
	add(func(fr *http2.Framer) error { return fr.WritePing(false, [8]byte{}) }, func(fr *http2.Framer) error { return fr.WriteGoAway(0, 0, nil) })
	return all
}
