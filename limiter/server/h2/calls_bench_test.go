package h2

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// load is a connection in memory, on which a client has up to inFlight calls at a time, until it has made n.
type load struct {
	net.Conn

	n, inFlight    int
	open           func(stream uint32) []byte // the frames of a call
	response, head int                        // bytes of a response, and of what precedes the first one

	mu      sync.Mutex
	changed *sync.Cond
	rest    []byte
	opened  int
	written int
}

func (l *load) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for {
		copied := copy(p[n:], l.rest)
		l.rest, n = l.rest[copied:], n+copied
		switch done := (l.written - l.head) / l.response; {
		case len(l.rest) > 0:
			return n, nil
		case l.opened < l.n && l.opened-done < l.inFlight:
			l.opened++
			l.rest = l.open(uint32(2*l.opened - 1))
		case n > 0:
			return n, nil
		case done >= l.n:
			return 0, io.EOF
		default:
			l.changed.Wait()
		}
	}
}

func (l *load) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written += len(p)
	l.changed.Signal()
	return len(p), nil
}

func (*load) Close() error                     { return nil }
func (*load) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*load) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*load) SetDeadline(time.Time) error      { return nil }
func (*load) SetReadDeadline(time.Time) error  { return nil }
func (*load) SetWriteDeadline(time.Time) error { return nil }

// newLoad returns calls as Envoy makes them. The fields of all but the first are references to the dynamic table.
func newLoad(b *testing.B, path string, response int) *load {
	b.Helper()
	l := &load{n: b.N, inFlight: 64, response: response, head: 49} // two SETTINGS and a WINDOW_UPDATE
	l.changed = sync.NewCond(&l.mu)
	var preface, frames, block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields := append(callFields(), "te", "trailers", "grpc-timeout", "20m", "x-envoy-internal", "true", "x-forwarded-for", "10.0.0.1")
	fields[5] = path
	framer := http2.NewFramer(&frames, nil)
	body := message(100)
	l.open = func(stream uint32) []byte {
		frames.Reset()
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a bytes.Buffer does not fail
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
		_ = framer.WriteData(stream, true, body)
		return frames.Bytes()
	}
	preface.WriteString(http2.ClientPreface)
	_ = http2.NewFramer(&preface, nil).WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	_ = http2.NewFramer(&preface, nil).WriteWindowUpdate(0, 1<<31-1-defaultWindow)
	l.rest = preface.Bytes()
	return l
}

func benchmark(b *testing.B, path string, response int) {
	b.Helper()
	o := settings()
	o.MaxStreams = 1024
	o.Methods["/a/No"] = rejecting()
	s := New(o)
	l := newLoad(b, path, response)
	c := newConn(s, l)
	s.add(c)
	b.ReportAllocs()
	b.ResetTimer()
	c.run()
	s.running.Done()
	s.workers.stop()
}

// BenchmarkRejected measures a call that the gate rejects.
func BenchmarkRejected(b *testing.B) {
	block := appendHeaders(nil, 1, trailersOnly(rejecting().Rejected), true)
	benchmark(b, "/a/No", len(block))
}

// BenchmarkEcho measures a call whose handler does nothing.
func BenchmarkEcho(b *testing.B) {
	size := len(appendHeaders(nil, 1, headerOK, false)) + frameHeader + messageHeader + 100 + len(appendHeaders(nil, 1, trailerOK, true))
	benchmark(b, "/a/Echo", size)
}
