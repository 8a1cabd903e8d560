package http2_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/latency"
)

// blocking is a store whose decisions wait for release, even if the caller has gone.
type blocking struct {
	limiter.Store
	release  chan struct{}
	waiting  atomic.Int64
	deciding atomic.Int64 // at most
}

func (b *blocking) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	now := b.waiting.Add(1)
	defer b.waiting.Add(-1)
	for {
		most := b.deciding.Load()
		if now <= most || b.deciding.CompareAndSwap(most, now) {
			break
		}
	}
	<-b.release
	return b.Store.Spend(ctx, charges)
}

func TestServer_AStreamThatIsResetCountsUntilItsCallHasEnded(t *testing.T) {
	store := &blocking{release: make(chan struct{})}
	e := serve(t, func(s limiter.Store) limiter.Store { store.Store = s; return store })
	p := e.connect(t)
	held := measure(t)
	sent := make(chan int, 1)
	go func() {
		i := 0
		for i < 20*maxStreams && errors.Join(p.call(onStream(i)), p.framer.WriteRSTStream(onStream(i), http2.ErrCodeCancel)) == nil {
			i++
		}
		sent <- i
	}()
	fixture.Await(t, "as many calls as streams are decided", func() bool { return store.waiting.Load() >= maxStreams })
	time.Sleep(300 * time.Millisecond) // more calls, if the server begins them
	if most := store.deciding.Load(); most > maxStreams {
		t.Errorf("%d calls of one connection at the same time, want at most %d", most, maxStreams)
	}
	close(store.release)
	t.Logf("%d calls, %s", <-sent, p.end())
	p.sync()
	held.held(32<<20, maxStreams+320)
}

func TestServer_HoldsLittleForCallsThatNeverEnd(t *testing.T) {
	slow := latency.Of(t)
	e := serve(t, unchanged)
	others := e.startHonest(t, slow)
	held := measure(t)
	const peers = 8
	payload := append([]byte{0, 0, 3, 0xff, 0xff}, make([]byte, 16<<10-5)...) // the beginning of a message of 256 KiB
	var all [peers]*peer
	for i := range all {
		all[i] = e.connect(t)
		all[i].sendWithinWindows(payload)
	}
	time.Sleep(200 * time.Millisecond) // the server reads
	// The bound of the process. It can hold a multiple for connections that come one after the other, and a buffer is larger than what it holds.
	const buffers = 16 << 20
	held.held(3*buffers, peers+64)
	others.wantServed(5 * time.Second)
}

// sendWithinWindows opens as many streams as allowed, and sends as much of the message on each as the windows allow.
func (p *peer) sendWithinWindows(payload []byte) {
	for i := range maxStreams {
		if p.open(onStream(i), false) != nil {
			return
		}
	}
	p.sync()
	for i := range maxStreams {
		for _, part := range [][]byte{payload, payload[5:], payload[5:], payload[5:]} { // just below 64 KiB
			if p.framer.WriteData(onStream(i), false, part) != nil {
				return
			}
		}
	}
}

func TestServer_HoldsLittleForAPeerThatDoesNotRead(t *testing.T) {
	for name, settings := range map[string][]http2.Setting{
		"with windows":    {{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}},
		"without windows": {{ID: http2.SettingInitialWindowSize, Val: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			slow := latency.Of(t)
			e := serve(t, unchanged)
			others := e.startHonest(t, slow)
			conn, err := net.Dial("tcp", e.address)
			if err != nil {
				t.Fatal(err)
			}
			p := silentPeer(t, conn)
			p.must(p.preface(settings...))
			p.must(p.framer.WriteWindowUpdate(0, 1<<30))
			held := measure(t)
			calls := 0
			p.must(conn.SetWriteDeadline(time.Now().Add(2 * time.Second)))
			for calls < 500_000 && p.call(onStream(calls)) == nil {
				calls++
			}
			t.Logf("%d calls were accepted", calls)
			held.held(16<<20, maxStreams+320)
			others.wantServed(5 * time.Second)
		})
	}
}

func TestServer_HoldsLittleForAnIdleConnection(t *testing.T) {
	const connections = 4000 // the test has both ends, and a file descriptor for each
	e := serve(t, unchanged)
	conns := make([]net.Conn, connections)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	held := measure(t)
	var dialing sync.WaitGroup
	for part := range 10 {
		dialing.Go(func() {
			for i := part; i < connections; i += 10 {
				conns[i] = e.idle(t)
			}
		})
	}
	dialing.Wait()
	held.held(connections*(idleConnection+idlePeer), connections*idleGoroutines+64)
}

const (
	idleConnection = 12 << 10 // bytes
	idlePeer       = 2 << 10  // of the test
	idleGoroutines = 1
)

// idle returns a connection that has completed its handshake.
func (e *endpoint) idle(t *testing.T) net.Conn {
	conn, err := net.Dial("tcp", e.address)
	if err != nil {
		t.Error(err)
		return nil
	}
	framer := http2.NewFramer(conn, conn)
	_, errPreface := conn.Write([]byte(http2.ClientPreface))
	if err := errors.Join(errPreface, framer.WriteSettings()); err != nil {
		t.Error(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Error(err)
			return conn
		}
		if settings, is := frame.(*http2.SettingsFrame); is && settings.IsAck() {
			return conn
		}
	}
}

func TestServer_ServesAPeerThatWritesByteByByte(t *testing.T) {
	e := serve(t, unchanged)
	conn, err := net.Dial("tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, bytewise{conn})
	for i := range 3 {
		p.wantServed(onStream(i))
	}
}

// bytewise writes each byte separately.
type bytewise struct{ net.Conn }

func (b bytewise) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := b.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}
