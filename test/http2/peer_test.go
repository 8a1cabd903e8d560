package http2_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-dev/weir/test/fixture"
)

const rlsPath = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// peer is an HTTP/2 client that does only what a test asks for. It records what the server sends.
type peer struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer  // writes
	block  []byte         // the header block of a call
	body   []byte         // the message of a call
	sent   map[int][]byte // by stream; see script

	reference bool // connected to a server of grpc-go

	whole    sync.Mutex // held while a header block is sent: no other frame may be between its frames
	mu       sync.Mutex
	streams  map[uint32]*response
	resets   map[http2.ErrCode]int // all streams, also those that are not recorded
	acks     int                   // of settings
	settings int                   // frames that were sent
	refill   bool                  // sends WINDOW_UPDATE for what it reads
	goAway   *goAway
	closed   error // of the connection, as read
	ended    chan struct{}
}

type goAway struct {
	code  http2.ErrCode
	debug string
}

// response is what the server sent on a stream.
type response struct {
	fields  map[string]string // of headers and trailers
	headers int               // frames with fields
	data    []byte
	ended   bool
	resets  int
	code    http2.ErrCode // of the first reset
}

// status returns the code of gRPC, or "" if the server sent no status.
func (r *response) status() string { return r.fields["grpc-status"] }

func (r *response) String() string {
	switch {
	case r == nil:
		return "nothing"
	case r.status() != "":
		return "grpc-status " + r.status()
	case r.resets > 0:
		return "reset " + r.code.String()
	case r.ended:
		return "ended without a status"
	}
	return fmt.Sprintf("%d headers, %d bytes", r.headers, len(r.data))
}

// connect opens a connection, sends the preface with settings, and reads what the server sends.
func (e *endpoint) connect(t testing.TB, settings ...http2.Setting) *peer {
	t.Helper()
	conn, err := net.Dial(e.network, e.address)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, conn, settings...)
}

func newPeer(t testing.TB, conn net.Conn, settings ...http2.Setting) *peer {
	t.Helper()
	p := silentPeer(t, conn)
	p.must(p.preface(settings...))
	p.startReading()
	return p
}

// silentPeer sends and reads nothing.
func silentPeer(t testing.TB, conn net.Conn) *peer {
	p := &peer{
		t: t, conn: conn, refill: true,
		sent: map[int][]byte{}, streams: map[uint32]*response{}, resets: map[http2.ErrCode]int{}, ended: make(chan struct{}),
	}
	p.framer = http2.NewFramer(settingsCounter{conn, p}, nil)
	p.framer.AllowIllegalWrites = true
	p.block = encode(call(rlsPath)...)
	p.body = message(t, request())
	t.Cleanup(func() { conn.Close() })
	return p
}

// settingsCounter counts the SETTINGS frames that a framer sends, each in one Write. The server acknowledges each of them.
type settingsCounter struct {
	net.Conn

	peer *peer
}

func (c settingsCounter) Write(frame []byte) (int, error) {
	const typeAt, flagsAt = 3, 4
	if http2.FrameType(frame[typeAt]) == http2.FrameSettings && http2.Flags(frame[flagsAt])&http2.FlagSettingsAck == 0 {
		c.peer.mu.Lock()
		c.peer.settings++
		c.peer.mu.Unlock()
	}
	return c.Conn.Write(frame)
}

func (p *peer) startReading() {
	go p.read()
	p.t.Cleanup(func() {
		p.conn.Close()
		<-p.ended
	})
}

func (p *peer) preface(settings ...http2.Setting) error {
	_, err := io.WriteString(p.conn, http2.ClientPreface)
	return errors.Join(err, p.framer.WriteSettings(settings...))
}

func (p *peer) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// field is a header field.
type field struct{ name, value string }

// call returns the fields of a call.
func call(path string, extra ...field) []field {
	return append([]field{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", path},
		{":authority", "limiter"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}, extra...)
}

// encode returns a header block that does not use the dynamic table, so it can be sent again.
func encode(fields ...field) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		if err := encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value, Sensitive: true}); err != nil {
			panic(err) // a bytes.Buffer does not fail
		}
	}
	return block.Bytes()
}

// record makes p keep the response on a stream. Otherwise p counts only resets.
func (p *peer) record(stream uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[stream] = &response{fields: map[string]string{}}
}

// open sends the headers of a call.
func (p *peer) open(stream uint32, end bool) error {
	return p.headers(stream, p.block, end)
}

func (p *peer) headers(stream uint32, block []byte, end bool) error {
	return p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: end})
}

// call sends a complete call.
func (p *peer) call(stream uint32) error {
	return errors.Join(p.open(stream, false), p.framer.WriteData(stream, true, p.body))
}

// ask sends a complete call and returns the response.
func (p *peer) ask(stream uint32) *response {
	p.t.Helper()
	p.record(stream)
	p.must(p.call(stream))
	return p.await(stream)
}

// await returns the response on a recorded stream when the stream or the connection has ended.
func (p *peer) await(stream uint32) *response {
	p.t.Helper()
	var r *response
	fixture.Await(p.t, fmt.Sprintf("stream %d ends", stream), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		r = p.streams[stream]
		return p.closed != nil || r.ended || r.resets > 0
	})
	return r
}

// wantServed checks that a call on p has a decision.
func (p *peer) wantServed(stream uint32) {
	p.t.Helper()
	if r := p.ask(stream); r.status() != "0" || len(r.data) == 0 {
		p.t.Fatalf("a call got %v: %s; %s, %+v", r, r.fields["grpc-message"], p.end(), p.goAway)
	}
}

// end describes how the connection ended, or is "open".
func (p *peer) end() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.goAway != nil:
		return "GOAWAY " + p.goAway.code.String()
	case p.closed != nil:
		return "closed"
	}
	return "open"
}

// sync waits until the server has received everything that p has sent, if it still reads. It does not ping: servers bound pings.
func (p *peer) sync() {
	if p.framer.WriteSettings() != nil {
		return
	}
	fixture.Await(p.t, "settings are acknowledged", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.acks == p.settings || p.closed != nil
	})
}

func (p *peer) read() {
	defer close(p.ended)
	framer := http2.NewFramer(nil, bufio.NewReader(p.conn))
	framer.SetReuseFrames()
	framer.AllowIllegalReads = true
	var fields map[string]string
	decoder := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if fields != nil {
			fields[f.Name] = f.Value
		}
	})
	decoder.SetAllowedMaxDynamicTableSize(1 << 16) // the most that a test announces
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			p.mu.Lock()
			p.closed = err
			p.mu.Unlock()
			return
		}
		p.receive(frame, func(block []byte, r *response) {
			fields = nil
			if r != nil {
				fields = r.fields
			}
			_, err := decoder.Write(block)
			if err := errors.Join(err, decoder.Close()); err != nil {
				p.t.Error(err)
			}
		})
		if data, is := frame.(*http2.DataFrame); is && p.refill && data.Length > 0 {
			p.credit(data.Length)
		}
	}
}

// credit writes past the framer, because the framer belongs to the goroutine of the test.
func (p *peer) credit(n uint32) {
	frame := make([]byte, 13)
	frame[2], frame[3] = 4, byte(http2.FrameWindowUpdate)
	binary.BigEndian.PutUint32(frame[9:], n)
	p.whole.Lock()
	defer p.whole.Unlock()
	_, _ = p.conn.Write(frame) // fails after the connection was closed
}

func (p *peer) receive(frame http2.Frame, decode func([]byte, *response)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.streams[frame.Header().StreamID]
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		decode(f.HeaderBlockFragment(), r)
		if r != nil {
			r.headers++
			r.ended = r.ended || f.StreamEnded()
		}
	case *http2.DataFrame:
		if r != nil {
			r.data = append(r.data, f.Data()...)
			r.ended = r.ended || f.StreamEnded()
		}
	case *http2.RSTStreamFrame:
		p.resets[f.ErrCode]++
		if r != nil {
			if r.resets++; r.resets == 1 {
				r.code = f.ErrCode
			}
		}
	case *http2.SettingsFrame:
		if f.IsAck() {
			p.acks++
		}
	case *http2.GoAwayFrame:
		p.goAway = &goAway{f.ErrCode, string(f.DebugData())}
	}
}
