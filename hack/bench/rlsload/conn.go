package rlsload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

const (
	bufferSize   = 64 << 10
	firstWindow  = 65_535   // of HTTP/2
	grant        = 64 << 20 // bytes that the server may send before this side grants more
	framePrefix  = 5        // bytes of a gRPC message before its content
	headerTable  = 4096     // bytes, of HTTP/2
	noMaxStreams = 1 << 30
)

// call is a request in flight.
type call struct {
	due    time.Time // when it was sent, or was to be sent
	answer []byte    // the first bytes of the answer
}

// conn is one HTTP/2 connection. One goroutine reads, and sends in a closed loop. In an open loop another one sends.
type conn struct {
	nc      net.Conn
	in      *bufio.Reader
	decoder *hpack.Decoder
	status  string // grpc-status of the header block that is read
	ungiven int    // bytes received since the last grant
	result  Result
	message func(*rand.Rand) []byte
	end     time.Time
	random  *rand.Rand

	mu         sync.Mutex // of the fields below, which both goroutines use
	out        *bufio.Writer
	framer     *http2.Framer
	headers    [2][]byte // the header blocks of the first request, and of the others, which refer to it
	stream     uint32
	window     int // bytes that the server accepts
	maxStreams int // 0 before the settings of the server arrive: a request beyond their number would be refused
	inFlight   map[uint32]*call
	waiting    []time.Time // due, and not sent: the server accepts no more
	free       []*call
	scheduled  bool // the open loop sends no more
	givenUp    bool // requests had no answer in time: no later period may use the connection
}

func dial(ctx context.Context, address string, seed uint64) (*conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{
		nc: nc, in: bufio.NewReaderSize(nc, bufferSize), out: bufio.NewWriterSize(nc, bufferSize), stream: 1, window: firstWindow,
		random: rand.New(rand.NewPCG(seed, 1)), inFlight: map[uint32]*call{},
	}
	c.decoder = hpack.NewDecoder(headerTable, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			c.status = f.Value
		}
	})
	c.framer = http2.NewFramer(c.out, c.in)
	c.framer.SetReuseFrames()
	c.headers = encodeHeaders(address)
	_, errPreface := c.out.WriteString(http2.ClientPreface)
	return c, errors.Join(errPreface, c.framer.WriteSettings(), c.framer.WriteWindowUpdate(0, grant), c.out.Flush())
}

// encodeHeaders returns the header blocks of the first request and of the later ones. The first adds its fields to the table of the server.
func encodeHeaders(authority string) (blocks [2][]byte) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range blocks {
		block.Reset()
		for _, f := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
			{":authority", authority},
			{"content-type", "application/grpc"},
			{"te", "trailers"},
		} {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
		}
		blocks[i] = bytes.Clone(block.Bytes())
	}
	return blocks
}

// begin prepares the connection for a period of load.
func (c *conn) begin(message func(*rand.Rand) []byte, end time.Time) {
	c.message, c.end, c.result, c.scheduled = message, end, Result{Latencies: make([]time.Duration, 0, 1<<14)}, false
}

// serve sends the first requests of a closed loop, and reads until the end of the period and the last answer.
func (c *conn) serve(callers int, open bool) error {
	c.mu.Lock()
	for range callers {
		c.send(time.Now())
	}
	c.mu.Unlock()
	c.flush()
	_ = c.nc.SetReadDeadline(c.end.Add(drain))
	for !c.isDone(callers, open) {
		frame, err := c.framer.ReadFrame()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.giveUp()
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from %s: %w", c.nc.RemoteAddr(), err)
		}
		if err := c.handle(frame, !open); err != nil {
			return err
		}
		if c.in.Buffered() == 0 { // what these answers caused is written together
			c.flush()
		}
	}
	return nil
}

// isDone reports whether no answer is missing and no request will be sent.
func (c *conn) isDone(callers int, open bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := c.scheduled || !open
	return over && len(c.inFlight) == 0 && len(c.waiting) == 0 && (callers == 0 || !time.Now().Before(c.end))
}

// giveUp counts the requests without an answer. The connection cannot be used again: the reader may have read a part of a frame.
func (c *conn) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Failed += len(c.inFlight) + len(c.waiting)
	c.givenUp = true
}

func (c *conn) schedule(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send(due)
}

// endSchedule ends the open loop, and wakes the reader.
func (c *conn) endSchedule() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scheduled = true
	_ = c.framer.WritePing(false, [8]byte{}) // the reader sees an error of the connection
	_ = c.out.Flush()
}

func (c *conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Flush() // the reader sees an error of the connection
}

// send queues a request, after those that wait. The caller holds the lock.
func (c *conn) send(due time.Time) {
	if len(c.waiting) > 0 || !c.trySend(due) {
		c.waiting = append(c.waiting, due)
	}
}

// trySend queues a request if the server accepts it. The caller holds the lock.
func (c *conn) trySend(due time.Time) bool {
	if len(c.inFlight) >= c.maxStreams {
		return false
	}
	message := c.message(c.random)
	size := framePrefix + len(message)
	if size > c.window {
		return false
	}
	c.window -= size
	var k *call
	if n := len(c.free); n > 0 {
		k, c.free = c.free[n-1], c.free[:n-1]
	} else {
		k = &call{}
	}
	k.due, k.answer = due, k.answer[:0]
	c.inFlight[c.stream] = k
	block := c.headers[min(c.stream-1, 1)]
	data := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: block, EndHeaders: true})
	_ = c.framer.WriteData(c.stream, true, append(data, message...)) // the reader sees an error of the connection
	c.stream += 2
	return true
}

// handle handles a frame of the server.
func (c *conn) handle(frame http2.Frame, closed bool) error {
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		c.status = ""
		if _, err := c.decoder.Write(f.HeaderBlockFragment()); err != nil {
			return err
		}
		if f.StreamEnded() {
			c.finish(f.StreamID, closed)
		}
	case *http2.DataFrame:
		c.receive(f)
	case *http2.RSTStreamFrame:
		c.status = "reset"
		c.finish(f.StreamID, closed)
	case *http2.GoAwayFrame:
		return fmt.Errorf("%s closes the connection: %v %s", c.nc.RemoteAddr(), f.ErrCode, f.DebugData())
	case *http2.SettingsFrame, *http2.PingFrame, *http2.WindowUpdateFrame:
		return c.control(f)
	}
	return nil
}

// receive keeps the beginning of an answer.
func (c *conn) receive(f *http2.DataFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.inFlight[f.StreamID]; k != nil && len(k.answer) < bufferSize {
		k.answer = append(k.answer, f.Data()...)
	}
	if c.ungiven += len(f.Data()); c.ungiven > grant/2 {
		_ = c.framer.WriteWindowUpdate(0, uint32(c.ungiven))
		c.ungiven = 0
	}
}

// control answers frames about the connection.
func (c *conn) control(frame http2.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f := frame.(type) {
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.window += int(f.Increment)
			c.sendWaiting()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.framer.WritePing(true, f.Data)
		}
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if n, has := f.Value(http2.SettingMaxConcurrentStreams); has {
			c.maxStreams = int(n)
		} else if c.maxStreams == 0 {
			c.maxStreams = noMaxStreams
		}
		_ = c.framer.WriteSettingsAck()
		c.sendWaiting()
	}
	return nil
}

// sendWaiting sends what the server now accepts. The caller holds the lock.
func (c *conn) sendWaiting() {
	for len(c.waiting) > 0 && c.trySend(c.waiting[0]) {
		c.waiting = c.waiting[1:]
	}
}

// finish counts the answer to a request, and sends the next one of a closed loop.
func (c *conn) finish(stream uint32, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.inFlight[stream]
	if k == nil {
		return // reset after its end
	}
	delete(c.inFlight, stream)
	now := time.Now()
	c.count(k, now)
	c.free = append(c.free, k)
	c.sendWaiting()
	if closed && now.Before(c.end) {
		c.send(now)
	}
}

// count counts the answer to a request.
func (c *conn) count(k *call, now time.Time) {
	switch c.status {
	case "0":
		denied, ok := isDenied(k.answer)
		if !ok {
			c.result.Failed++
			return
		}
		if denied {
			c.result.Denied++
		} else {
			c.result.Allowed++
		}
		c.result.Latencies = append(c.result.Latencies, now.Sub(k.due))
	case strconv.Itoa(int(codes.Unavailable)):
		c.result.Shed++
	default:
		c.result.Failed++
	}
}
