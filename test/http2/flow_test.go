package http2_test

import (
	"encoding/binary"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/test/fixture"
)

func initialWindow(n uint32) http2.Setting {
	return http2.Setting{ID: http2.SettingInitialWindowSize, Val: n}
}

// decided returns the message of a response.
func decided(t *testing.T, r *response) *ratelimitv3.RateLimitResponse {
	t.Helper()
	out := &ratelimitv3.RateLimitResponse{}
	if len(r.data) < 5 || r.data[0] != 0 || int(binary.BigEndian.Uint32(r.data[1:])) != len(r.data)-5 {
		t.Fatalf("%v with %x", r, r.data)
	}
	if err := proto.Unmarshal(r.data[5:], out); err != nil {
		t.Fatal(err)
	}
	return out
}

// received returns how many bytes of DATA the server sent on stream 1, and whether it ended the stream.
func (p *peer) received() (n int, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams[1].data), p.streams[1].ended
}

// wantReceived waits until the server has sent n bytes on stream 1, and checks that it sends no more.
func (p *peer) wantReceived(n int) {
	p.t.Helper()
	fixture.Await(p.t, "the window is used", func() bool { got, _ := p.received(); return got >= n })
	p.sync()
	if got, ended := p.received(); got != n || ended {
		p.t.Fatalf("received %d bytes, ended %v, want %d bytes and no end", got, ended, n)
	}
}

// newcomer connects without a window for responses, and has sent a call on stream 1.
func newcomer(t *testing.T, e *endpoint, window uint32) *peer {
	t.Helper()
	p := e.connect(t, initialWindow(window))
	p.refill = false
	p.record(1)
	p.must(p.call(1))
	return p
}

func TestServer_SendsNoMoreThanTheWindowOfTheStream(t *testing.T) {
	e := serve(t, unchanged)
	for name, open := range map[string]func(p *peer) error{
		"WINDOW_UPDATE":      func(p *peer) error { return p.framer.WriteWindowUpdate(1, 1<<20) },
		"SETTINGS":           func(p *peer) error { return p.framer.WriteSettings(initialWindow(1 << 20)) },
		"SETTINGS, in order": func(p *peer) error { return p.framer.WriteSettings(initialWindow(0), initialWindow(1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newcomer(t, e, 0)
			p.sync()
			if n, ended := p.received(); n != 0 || ended {
				t.Fatalf("received %d bytes, ended %v, without a window", n, ended)
			}
			p.must(p.framer.WriteWindowUpdate(1, 3))
			p.wantReceived(3)
			p.must(p.framer.WriteSettings(initialWindow(1)))
			p.wantReceived(4)
			p.must(open(p))
			r := p.await(1)
			if got := decided(t, r); got.GetOverallCode() != ratelimitv3.RateLimitResponse_OK {
				t.Errorf("received %v, %v", r, got)
			}
		})
	}
}

// A change of the initial window can make the windows of streams negative.
func TestServer_SendsNothingWhileTheWindowIsNegative(t *testing.T) {
	e := serve(t, unchanged)
	p := newcomer(t, e, 5)
	p.wantReceived(5)
	p.must(p.framer.WriteSettings(initialWindow(0))) // the window is -5
	p.must(p.framer.WriteWindowUpdate(1, 5))
	p.wantReceived(5)
	p.must(p.framer.WriteWindowUpdate(1, 1))
	p.wantReceived(6)
	p.must(p.framer.WriteWindowUpdate(1, 1<<20))
	if r := p.await(1); r.status() != "0" {
		t.Error(r)
	}
}

func TestServer_SendsNoMoreThanTheWindowOfTheConnection(t *testing.T) {
	const window = 65535
	e := serve(t, unchanged)
	size := len(e.connect(t).ask(1).data)
	p := e.connect(t)
	p.refill = false
	calls := window/size + 100
	for i := range calls {
		p.record(onStream(i))
		p.must(p.call(onStream(i)))
		if i%500 == 499 {
			p.sync() // at most 1024 streams
		}
	}
	total := func() (bytes, ended int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, r := range p.streams {
			bytes += len(r.data)
			if r.ended {
				ended++
			}
		}
		return bytes, ended
	}
	fixture.Await(t, "the window is used", func() bool { n, _ := total(); return n >= window })
	p.sync()
	if n, ended := total(); n != window || ended >= calls {
		t.Errorf("received %d bytes and %d responses, want %d bytes", n, ended, window)
	}
	p.must(p.framer.WriteWindowUpdate(0, 1<<20))
	fixture.Await(t, "all responses are complete", func() bool { _, ended := total(); return ended == calls })
}

// A call whose response waits for a window ends when its stream is reset.
func TestServer_FreesTheStreamsOfResponsesThatWaitForAWindow(t *testing.T) {
	e := serve(t, unchanged)
	p := e.connect(t, initialWindow(0))
	for round := range 3 {
		for i := range maxStreams {
			p.must(p.call(onStream(round*maxStreams + i)))
		}
		p.sync()
		for i := range maxStreams {
			p.must(p.framer.WriteRSTStream(onStream(round*maxStreams+i), http2.ErrCodeCancel))
		}
		p.sync()
	}
	if p.resets[http2.ErrCodeRefusedStream] > 0 {
		t.Errorf("%d streams were refused", p.resets[http2.ErrCodeRefusedStream])
	}
	p.must(p.framer.WriteSettings(initialWindow(1 << 20)))
	p.wantServed(onStream(3 * maxStreams))
}

func TestServer_RefusesMoreThan1024Streams(t *testing.T) {
	e := serve(t, unchanged)
	p := e.connect(t)
	for i := range maxStreams {
		p.must(p.open(onStream(i), false))
	}
	last := onStream(maxStreams)
	if r := p.ask(last); r.String() != "reset REFUSED_STREAM" {
		t.Errorf("the stream after %d got %v", maxStreams, r)
	}
	p.must(p.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	fixture.Await(t, "a call is served after another was reset", func() bool {
		last += 2
		return p.ask(last).status() == "0"
	})
}
