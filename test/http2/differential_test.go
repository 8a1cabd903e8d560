package http2_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"

	"github.com/weir-dev/weir/limiter/server/envoy"
	"github.com/weir-dev/weir/test/fixture"
)

// serveReference runs a limiter with the transport of grpc-go on a Unix socket until the test ends.
func serveReference(t testing.TB) *endpoint {
	t.Helper()
	return serveWith(t, listenUnix(t), unchanged, envoy.StandardTransport)
}

// listenUnix listens on a Unix socket, because a closed connection of TCP occupies a port for a minute.
func listenUnix(t testing.TB) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir") //nolint:usetesting // the name of a test can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// A script is what a peer sends on a connection.
type script struct {
	steps   []step
	streams int           // opened
	reset   map[int]bool  // by the peer, so what they got depends on the time
	ended   map[int]bool  // by the peer
	sent    map[int]int   // bytes of DATA
	windows map[int]int64 // for responses
	initial int64
	pings   int
}

type step struct {
	name string
	send func(p *peer) error
}

// interpret reads a script from any bytes. The frames are well-formed.
func interpret(in []byte) *script {
	s := &script{reset: map[int]bool{}, ended: map[int]bool{}, sent: map[int]int{}, windows: map[int]int64{}, initial: 65535}
	next := func() int {
		if len(in) == 0 {
			return 0
		}
		b := in[0]
		in = in[1:]
		return int(b)
	}
	for len(in) > 0 && len(s.steps) < 60 {
		s.add(next(), next)
	}
	return s
}

func (s *script) do(name string, send func(p *peer) error) {
	s.steps = append(s.steps, step{name, send})
}

// add adds one step.
func (s *script) add(kind int, next func() int) {
	switch kind % 12 {
	case 0, 1, 2:
		s.open(next(), next()%2 == 0)
	case 3, 4, 5:
		s.data(next(), next(), next()%2 == 0)
	case 6:
		if i, is := s.pick(next()); is {
			s.reset[i] = true
			s.do(fmt.Sprintf("reset %d", i), func(p *peer) error { return p.framer.WriteRSTStream(onStream(i), http2.ErrCodeCancel) })
		}
	case 7:
		s.window(next(), next())
	case 8:
		s.settings(next())
	case 9:
		if s.pings < 2 { // the third one ends the connection, depending on the time
			s.pings++
			s.do("ping", func(p *peer) error { return p.framer.WritePing(false, [8]byte{7}) })
		}
	case 10:
		stream, on := onStream(next()), onStream(next())
		if stream != on {
			s.do(fmt.Sprintf("priority of %d", stream), func(p *peer) error {
				return p.framer.WritePriority(stream, http2.PriorityParam{StreamDep: on, Weight: 3})
			})
		}
	case 11:
		kind, size := http2.FrameType(0x20+next()%0x80), next()
		s.do("unknown frame", func(p *peer) error { return p.framer.WriteRawFrame(kind, 0, 0, make([]byte, size)) })
	}
}

// pick returns a stream that was opened.
func (s *script) pick(n int) (int, bool) {
	if s.streams == 0 {
		return 0, false
	}
	return n % s.streams, true
}

// A header is the header block of a request.
type header struct {
	block []byte
	// equivalent is the block to which grpc-go responds as the limiter does to block. Nil means block: only the others are differences.
	equivalent []byte
}

func headers() []header {
	plain := encode(call(rlsPath)...)
	same := func(fields ...field) header { return header{block: encode(fields...)} }
	return []header{
		{block: plain},
		{block: plain},
		{block: plain},
		same(call(rlsPath, field{"grpc-timeout", "1H"}, field{"x-trace", "a"})...),
		same(call("/grpc.health.v1.Health/Check")...),
		same(call("/grpc.health.v1.Health/Nothing")...),
		same(call("/a.B/C")...),
		same(call("none")...),
		same(call(rlsPath, field{"grpc-timeout", "1Q"})...),
		same(call(rlsPath, field{"grpc-encoding", "zap"})...),
		same(call(rlsPath, field{"grpc-encoding", "identity"}, field{"grpc-accept-encoding", "gzip"})...),
		{encode(call(rlsPath, field{"x-bin", "%"})...), plain}, // it does not decode metadata
		same(call(rlsPath, field{"connection", "close"})...),
		{encode(call(rlsPath, field{"host", "a"}, field{"host", "b"})...), plain}, // it reads no host
		{block: without(":method", field{":method", "GET"})},                      // the order of the fields makes it malformed
		same(append([]field{{":method", "PUT"}}, call(rlsPath)[1:]...)...),
		{without("content-type", field{"content-type", "application/grpc+proto"}), plain}, // the content-type of a response is always application/grpc
		{block: without("content-type", field{"content-type", "text/plain"})},
		{block: without("te")},
		{without(":authority"), plain}, // it reads no host
		same(call(rlsPath, field{"Upper", "a"})...),
		same(call(rlsPath, field{"x", strings.Repeat("x", maxHeaders)})...),
	}
}

func (s *script) open(variant int, end bool) {
	i := s.streams
	s.streams++
	all := headers()
	variant %= len(all)
	s.ended[i] = end
	s.windows[i] = s.initial
	s.do(fmt.Sprintf("open %d, variant %d, end %v", i, variant, end), func(p *peer) error {
		block := all[variant].block
		if p.reference && all[variant].equivalent != nil {
			block = all[variant].equivalent
		}
		return p.fields(onStream(i), block, end)
	})
}

// messages are the bytes of DATA frames.
func messages(body []byte) [][]byte {
	return [][]byte{
		body, body, body, body, nil, body[:3], body[3:], body[:9], body[9:], []byte("\x00\x00\x00\x00\x00"), []byte("\x01\x00\x00\x00\x00"),
		[]byte("\x02\x00\x00\x00\x00"), []byte("\x00\x00\x10\x00\x01"), []byte("\x00\x00\x00\x00\x02\xff\xff"), append(slices.Clone(body), body...),
		[]byte("\x00\xff\xff\xff\xff"), append(slices.Clone(body), 0),
	}
}

func (s *script) data(stream, variant int, end bool) {
	i, is := s.pick(stream)
	if !is || s.ended[i] || s.reset[i] {
		return
	}
	s.ended[i] = end
	s.do(fmt.Sprintf("data %d, variant %d, end %v", i, variant, end), func(p *peer) error {
		all := messages(p.body)
		part := all[variant%len(all)]
		p.sent[i] = append(p.sent[i], part...)
		return p.framer.WriteData(onStream(i), end, part)
	})
}

func (s *script) window(stream, n int) {
	increment := uint32(n*n + 1)
	i, is := s.pick(stream)
	if is && stream%3 != 0 {
		s.do(fmt.Sprintf("window of %d +%d", i, increment), func(p *peer) error { return p.framer.WriteWindowUpdate(onStream(i), increment) })
		return
	}
	s.do(fmt.Sprintf("window of the connection +%d", increment), func(p *peer) error { return p.framer.WriteWindowUpdate(0, increment) })
}

func (s *script) settings(n int) {
	list := []http2.Setting{
		initialWindow(0),
		initialWindow(1),
		initialWindow(7),
		initialWindow(65535),
		initialWindow(1 << 20),
		{ID: http2.SettingMaxFrameSize, Val: 16384},
		{ID: http2.SettingMaxFrameSize, Val: 1<<24 - 1},
		{ID: http2.SettingHeaderTableSize, Val: 0},
		{ID: http2.SettingHeaderTableSize, Val: 1 << 16},
		{ID: http2.SettingMaxConcurrentStreams, Val: 0},
		{ID: http2.SettingEnablePush, Val: 0},
		{ID: 0x99, Val: 1},
	}
	chosen := list[n%len(list)]
	s.do(chosen.String(), func(p *peer) error { return p.framer.WriteSettings(chosen) })
}

func (s *script) String() string {
	names := make([]string, len(s.steps))
	for i, step := range s.steps {
		names[i] = step.name
	}
	return strings.Join(names, "\n")
}

// play sends the script on a new connection, and then opens all windows.
func (s *script) play(t testing.TB, e *endpoint) *peer {
	p := e.connect(t)
	p.reference = e.reference
	p.body = message(t, &ratelimitv3.RateLimitRequest{Domain: "other", Descriptors: request().GetDescriptors()}) // no policy applies
	for i := range s.streams {
		p.record(onStream(i))
	}
	for _, step := range s.steps {
		if step.send(p) != nil {
			return p // the server has closed the connection
		}
	}
	_ = p.framer.WriteSettings(initialWindow(1<<24), http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384}) // fails after the server has closed the connection
	return p
}

// settled reports whether the server has responded to all requests that are complete, or has closed the connection.
func (p *peer) settled(s *script) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.streams {
		if i := int(id / 2); s.ended[i] && !s.reset[i] && !r.ended && r.resets == 0 && p.closed == nil {
			return false
		}
	}
	return true
}

// outcome describes what the peer got on the streams that it has not reset, or only the end of the connection.
func (p *peer) outcome(s *script) string {
	if end := p.end(); end != "open" {
		return end
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out bytes.Buffer
	for _, id := range slices.Sorted(maps.Keys(p.streams)) {
		i, r := int(id/2), p.streams[id]
		switch {
		case s.reset[i]:
		case len(p.sent[i]) == 0, s.ended[i] && !hasMore(p.sent[i]):
			fmt.Fprintf(&out, "%d: %v, HTTP %s, %q, DATA %x\n", id, r, r.fields[":status"], r.fields["content-type"], r.data)
		default: // servers reject the message at different times, and with the status of another of its errors
			fmt.Fprintf(&out, "%d: allowed %v\n", id, r.status() == "0")
		}
	}
	return out.String()
}

// hasMore reports whether there is something after the first message. A call has one message, so both servers reject it.
func hasMore(sent []byte) bool {
	return len(sent) > 5 && len(sent)-5 > int(binary.BigEndian.Uint32(sent[1:]))
}

// FuzzServer_AgreesWithGRPC checks that the limiter responds to any sequence of well-formed frames as the server of grpc-go does, except for
// the differences that headers lists.
func FuzzServer_AgreesWithGRPC(f *testing.F) {
	for i := range 22 {
		f.Add([]byte{0, byte(i), 1, 3, 0, 0, 0})             // a call of each variant
		f.Add([]byte{0, byte(i), 0})                         // without a message
		f.Add([]byte{0, 0, 1, 3, 0, byte(i), 0})             // with each message
		f.Add([]byte{0, 0, 1, 3, 0, byte(i), 1, 0, 0, 1, 3}) // not complete
	}
	f.Add([]byte{8, 0, 0, 0, 1, 3, 0, 0, 0, 7, 1, 1, 7, 1, 4, 8, 2})
	f.Add([]byte{0, 0, 1, 6, 0, 0, 0, 1, 3, 1, 0, 0, 9, 10, 0, 1, 11, 4, 5})
	ours, theirs := serveOn(f, listenUnix(f), unchanged), serveReference(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		s := interpret(in)
		a, b := s.play(t, ours), s.play(t, theirs)
		fixture.Await(t, "both servers respond", func() bool { return a.settled(s) && b.settled(s) })
		got, want := a.outcome(s), b.outcome(s)
		for deadline := time.Now().Add(5 * time.Second); got != want && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // one of them responds to an incomplete request
			got, want = a.outcome(s), b.outcome(s)
		}
		if got != want {
			t.Errorf("the peer sent\n%v\nand got from the limiter\n%s\nwant\n%s", s, got, want)
		}
	})
}
