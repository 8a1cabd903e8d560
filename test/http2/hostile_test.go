package http2_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-dev/weir/test/latency"
)

// A flood sends frames of a kind until it has sent all, or the server has closed the connection.
type flood struct {
	frames int
	send   func(p *peer, i int) error
	// prepare runs before the flood. Nil prepares nothing.
	prepare func(p *peer) error
	// ends are the ends of the connection that are allowed: "open" means that the server serves calls on it.
	ends []string
	// heap is the most that the server and the peer hold, in bytes.
	heap int64
	// goroutines is the most that the server starts.
	goroutines int
	// p99 is the highest p99 latency of other clients; 0 means 1 s. A flood of calls takes all processors.
	p99 time.Duration
}

// bomb is a header block of 12 KiB that refers to a field of 3 KiB in the dynamic table, 12 000 times.
func bomb() []byte {
	var block []byte
	block = append(block, encode(call(rlsPath)...)...)
	block = append(block, 0x40, 1, 'a', 0x7f) // a literal with incremental indexing, and a length of 7 bits
	block = hpackInteger(block, 3000-127)
	block = append(block, make([]byte, 3000)...)
	for range 12000 {
		block = append(block, 0x80|62) // the first entry of the dynamic table
	}
	return block
}

// hpackInteger appends the continuation of an integer.
func hpackInteger(to []byte, n int) []byte {
	for n >= 128 {
		to = append(to, byte(n)|0x80)
		n >>= 7
	}
	return append(to, byte(n))
}

func raw(kind http2.FrameType, flags http2.Flags, payload ...byte) func(*peer, int) error {
	return func(p *peer, _ int) error { return p.framer.WriteRawFrame(kind, flags, 0, payload) }
}

func onStream(i int) uint32 { return uint32(2*i + 1) }

func openFirst(p *peer) error { return p.open(1, false) }

func floods() map[string]flood {
	const mib = 1 << 20
	fields := encode(field{"a", string(make([]byte, 1000))})
	large := encode(call(rlsPath, field{"large", strings.Repeat("x", 300<<10)})...)
	huge := encode(call(rlsPath, field{"huge", strings.Repeat("x", 700<<10)})...)
	bombs, resized := bomb(), append(updates(8000), encode(call(rlsPath)...)...)
	unknown := encode(call("/a/b")...)
	web := encode(field{":method", "POST"}, field{":scheme", "http"}, field{":path", rlsPath}, field{":authority", "a"})
	many := windows(2700)
	calm, protocol, compression := "GOAWAY ENHANCE_YOUR_CALM", "GOAWAY PROTOCOL_ERROR", "GOAWAY COMPRESSION_ERROR"
	ack := http2.FlagSettingsAck
	return map[string]flood{
		"streams that are opened and reset": {p99: 5 * time.Second, frames: 100_000, heap: 16 * mib, goroutines: maxStreams + 64, ends: []string{"open", calm}, send: func(p *peer, i int) error {
			return errors.Join(p.open(onStream(i), false), p.framer.WriteRSTStream(onStream(i), http2.ErrCodeCancel))
		}},
		"calls that are reset": {p99: 5 * time.Second, frames: 20_000, heap: 16 * mib, goroutines: maxStreams + 64, ends: []string{"open", calm}, send: func(p *peer, i int) error {
			return errors.Join(p.call(onStream(i)), p.framer.WriteRSTStream(onStream(i), http2.ErrCodeCancel))
		}},
		"CONTINUATION frames of a header list without end": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"closed", calm, protocol}, prepare: func(p *peer) error {
			return p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block})
		}, send: func(p *peer, _ int) error { return p.framer.WriteContinuation(1, false, fields) }},
		"empty CONTINUATION frames": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{stuck, "closed", calm, protocol}, prepare: func(p *peer) error {
			return p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block})
		}, send: func(p *peer, _ int) error { return p.framer.WriteContinuation(1, false, nil) }},
		"PING":                         {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{calm}, send: func(p *peer, _ int) error { return p.framer.WritePing(false, [8]byte{}) }},
		"acknowledgements of PING":     {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, send: func(p *peer, _ int) error { return p.framer.WritePing(true, [8]byte{}) }},
		"SETTINGS":                     {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, send: func(p *peer, _ int) error { return p.framer.WriteSettings() }},
		"acknowledgements of SETTINGS": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm, protocol}, send: raw(http2.FrameSettings, ack)},
		"SETTINGS with 2700 entries": {frames: 2000, heap: 8 * mib, goroutines: 16, ends: []string{"open", calm}, send: func(p *peer, _ int) error {
			return p.framer.WriteRawFrame(http2.FrameSettings, 0, 0, many)
		}},
		"empty DATA frames": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, prepare: openFirst, send: func(p *peer, _ int) error { return p.framer.WriteData(1, false, nil) }},
		"DATA frames of padding": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, prepare: openFirst, send: func(p *peer, _ int) error {
			return p.framer.WriteDataPadded(1, false, nil, make([]byte, 0))
		}},
		"WINDOW_UPDATE of a stream":       {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, prepare: openFirst, send: func(p *peer, _ int) error { return p.framer.WriteWindowUpdate(1, 1) }},
		"WINDOW_UPDATE of the connection": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, send: func(p *peer, _ int) error { return p.framer.WriteWindowUpdate(0, 1) }},
		"PRIORITY": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, send: func(p *peer, i int) error {
			return p.framer.WritePriority(onStream(i), http2.PriorityParam{StreamDep: 0, Weight: 10})
		}},
		"RST_STREAM of one stream": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, prepare: openFirst, send: func(p *peer, _ int) error {
			return p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
		}},
		"frames of an unknown type": {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm}, send: raw(0xbe, 0, 1, 2, 3)},
		"GOAWAY":                    {frames: 50_000, heap: 4 * mib, goroutines: 16, ends: []string{"open", "closed", calm, "GOAWAY NO_ERROR"}, send: func(p *peer, _ int) error { return p.framer.WriteGoAway(0, http2.ErrCodeNo, nil) }},
		"header lists over 256 KiB": {frames: 500, heap: 8 * mib, goroutines: 16, ends: []string{"open", calm}, send: func(p *peer, i int) error {
			return p.fields(onStream(i), large, true)
		}},
		"header lists of 600 KiB": {frames: 2000, heap: 8 * mib, goroutines: 16, ends: []string{"open", "closed", calm, protocol, compression}, send: func(p *peer, i int) error {
			return p.fields(onStream(i), huge, true)
		}},
		"header lists of one repeated field": {frames: 500, heap: 8 * mib, goroutines: 16, ends: []string{"open", calm, protocol, compression}, send: func(p *peer, i int) error {
			return p.fields(onStream(i), bombs, true)
		}},
		"updates of the size of the dynamic table": {frames: 2000, heap: 4 * mib, goroutines: 16, ends: []string{"open", calm, protocol, compression}, send: func(p *peer, i int) error {
			return p.headers(onStream(i), resized, true)
		}},
		"calls without a message": {p99: 5 * time.Second, frames: 20_000, heap: 16 * mib, goroutines: maxStreams + 64, ends: []string{"open", calm}, send: func(p *peer, i int) error { return p.open(onStream(i), true) }},
		"calls of unknown methods": {p99: 5 * time.Second, frames: 10_000, heap: 12 * mib, goroutines: maxStreams, ends: []string{"open", calm}, send: func(p *peer, i int) error {
			return p.headers(onStream(i), unknown, true)
		}},
		"calls with another content type": {p99: 5 * time.Second, frames: 20_000, heap: 16 * mib, goroutines: maxStreams + 64, ends: []string{"open", calm}, send: func(p *peer, i int) error {
			return p.headers(onStream(i), web, true)
		}},
	}
}

// updates returns n updates of the size of the dynamic table.
func updates(n int) []byte {
	var block []byte
	for range n / 4 {
		block = append(block, 0x20)             // to 0
		block = append(block, 0x3f, 0xe1, 0x1f) // to 4096
	}
	return block
}

// windows returns a SETTINGS payload that changes the initial window n times.
func windows(n int) []byte {
	var payload []byte
	for i := range n {
		payload = binary.BigEndian.AppendUint16(payload, uint16(http2.SettingInitialWindowSize))
		payload = binary.BigEndian.AppendUint32(payload, uint32(65535+i%2))
	}
	return payload
}

func TestServer_HoldsLittleForAFloodAndServesOthers(t *testing.T) {
	for name, test := range floods() {
		t.Run(name, func(t *testing.T) {
			slow := latency.Of(t)
			e := serve(t, unchanged)
			others := e.startHonest(t, slow)
			p := e.connect(t)
			held := measure(t)
			sent := 0
			if test.prepare == nil || test.prepare(p) == nil {
				for sent < test.frames && test.send(p, sent) == nil {
					sent++
				}
			}
			end := p.wantEndAfterFlood(test)
			t.Logf("%s after %d of %d", end, sent, test.frames)
			held.held(test.heap, test.goroutines)
			others.wantServed(cmp.Or(test.p99, time.Second))
		})
	}
}

// wantEndAfterFlood checks how the connection ended. A connection that is open must serve a call.
func (p *peer) wantEndAfterFlood(f flood) string {
	p.t.Helper()
	if slices.Contains(f.ends, stuck) {
		return p.end()
	}
	p.sync()
	end := p.end()
	if !slices.Contains(f.ends, end) {
		p.t.Errorf("the connection is %q after the flood, want one of %q", end, f.ends)
	}
	if end == "open" {
		p.wantServed(1<<30 + 1)
	}
	return end
}

// stuck is the end of a connection in the middle of a header block: the server can only wait.
const stuck = "stuck"
