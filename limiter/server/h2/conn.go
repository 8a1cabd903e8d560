package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/weir-dev/weir/limiter/overload"
)

// conn is a connection. One goroutine reads its frames.
type conn struct {
	server *Server
	raw    net.Conn // below TLS
	nc     net.Conn
	input  *input
	framer *http2.Framer
	header *headerBlock
	peer   *peer.Peer
	base   context.Context //nolint:containedctx // of all calls of the connection

	// Only the goroutine that reads the connection uses these fields.
	last    uint32  // the highest stream of the client
	open    request // whose header block is not complete
	window  int     // bytes of DATA that the client can still send
	unacked int     // bytes of DATA for which the client has no window yet
	budget  budget
	pings   pings
	inline  worker // for the calls that this goroutine serves

	buffers   *overload.Share // of those of the process
	blockHeld int             // bytes of the header block that is not complete

	mu        sync.Mutex
	changed   *sync.Cond // something ended for which the reader may wait
	streams   map[uint32]*stream
	ended     closedStreams
	resets    int    // the streams that the client has reset and whose handler runs
	answered  int    // the streams that have their response and whose request has not ended
	completed int    // the calls that have ended with a response since the reader has last accounted for them
	served    uint32 // the highest stream that is not ignored
	held      int    // bytes of messages that workers have
	output
	windows
	drainState
}

// Bounds of a connection.
const (
	connectionWindow = 1 << 20 // bytes of DATA
	// maxHeld bounds the messages of a connection that workers have, in bytes. Then no more frames are read.
	maxHeld = 4 << 20
	// framesPerTurn is how many frames of a connection are read before others have their turn. Otherwise a connection with more to read has a processor
	// for 10 ms, and others wait for all of them.
	framesPerTurn = 32
	// streamCost is what an open stream takes of the buffers, without its message, in bytes.
	streamCost = 1 << 10
)

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, raw: nc, nc: nc, streams: map[uint32]*stream{}, window: defaultWindow}
	c.changed = sync.NewCond(&c.mu)
	c.buffers = s.buffers.Share()
	c.windows = windows{connection: defaultWindow, initial: defaultWindow, frame: maxFrame}
	c.input = &input{conn: c}
	return c
}

// run serves the connection until it is closed.
func (c *conn) run() {
	defer c.close()
	if err := c.start(); err != nil {
		return
	}
	c.startTimers()
	c.input.lastRead = time.Now()
	c.input.schedule(c.input.lastRead, false)
	for frames := 1; c.waitForRoom(); frames++ {
		if err := c.next(); err != nil && !c.survives(err) {
			return
		}
		if frames%framesPerTurn == 0 {
			runtime.Gosched()
		}
	}
	c.linger()
}

var errPreface = errors.New("the client does not use HTTP/2")

// start does the handshakes of TLS and HTTP/2.
func (c *conn) start() error {
	o := &c.server.options
	if err := c.nc.SetDeadline(time.Now().Add(o.ConnectionTimeout)); err != nil {
		return fmt.Errorf("set the deadline of the handshake: %w", err)
	}
	var auth credentials.AuthInfo
	if o.Credentials != nil {
		secured, info, err := o.Credentials.ServerHandshake(c.nc)
		if err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		c.secure(secured)
		auth = info
	}
	setUserTimeout(c.raw, o.KeepaliveTimeout)
	c.peer = &peer.Peer{Addr: c.nc.RemoteAddr(), LocalAddr: c.nc.LocalAddr(), AuthInfo: auth}
	c.base = peer.NewContext(context.Background(), c.peer)
	if o.Connect != nil {
		c.base = o.Connect(c.base)
	}
	c.framer = c.newFramer()
	c.header = newHeaderBlock(o.MaxHeaders, append([]string{"content-type", "grpc-encoding", "grpc-timeout"}, o.Metadata...))
	if err := c.preface(); err != nil {
		return err
	}
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("end the deadline of the handshake: %w", err)
	}
	return nil
}

// newFramer returns a parser. It keeps a buffer for the largest frame that it has read.
func (c *conn) newFramer() *http2.Framer {
	f := http2.NewFramer(nil, c.input)
	f.SetReuseFrames()
	f.SetMaxReadFrameSize(maxFrame)
	return f
}

// preface sends the settings, and reads those of the client, which are its first frame.
func (c *conn) preface() error {
	o := &c.server.options
	c.mu.Lock()
	c.out = appendSettings(c.out,
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(o.MaxStreams)},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(o.MaxHeaders)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.streamWindow())})
	c.out = appendWindowUpdate(c.out, 0, connectionWindow-defaultWindow)
	c.window = connectionWindow
	c.started = true
	c.mu.Unlock()
	got := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.input, got); err != nil {
		return fmt.Errorf("read the preface: %w", err)
	}
	if string(got) != http2.ClientPreface {
		return errPreface
	}
	frame, err := c.framer.ReadFrame()
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
		return c.onSettings(settings)
	}
	c.goAway(http2.ErrCodeProtocol, "the first frame is not SETTINGS")
	return errPreface
}

// streamWindow is the initial window of a stream, in bytes: a whole message fits.
func (c *conn) streamWindow() int {
	return max(defaultWindow, c.server.options.MaxMessage+messageHeader)
}

// secure makes the connection use nc from now on.
func (c *conn) secure(nc net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nc = nc
}

// waitForRoom waits as long as the client does not read what it is sent, or its messages take too much memory. It reports whether the
// connection is open.
func (c *conn) waitForRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && (c.writing && len(c.out) > c.server.maxOut() || c.held > maxHeld) {
		c.wait()
	}
	return !c.closed
}

// wait waits for a change, after it has written what there is to write. The caller has the mutex.
func (c *conn) wait() {
	if c.writing || len(c.out) == 0 {
		c.changed.Wait()
		return
	}
	c.writing = true
	c.writeAndUnlock()
	c.mu.Lock()
}

// survives handles an error of a frame, and reports whether the connection continues.
func (c *conn) survives(err error) bool {
	if stream, ok := errors.AsType[http2.StreamError](err); ok {
		c.abortStream(stream.StreamID, stream.Code)
		err := c.spend()
		return err == nil || c.survives(err)
	}
	if code, ok := errors.AsType[http2.ConnectionError](err); ok {
		c.goAway(http2.ErrCode(code), "")
	} else if errors.Is(err, http2.ErrFrameTooLarge) {
		c.goAway(http2.ErrCodeFrameSize, "")
	}
	return false
}
