package h2

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/net/http2"
)

var errTooManyPings = errors.New("too many pings")

// drainState is how a connection ends. The mutex of the connection guards it.
type drainState struct {
	timers   [2]*time.Timer // of the age, and the next step of the end
	started  bool           // the handshakes have ended
	draining bool           // the client received a GOAWAY that lets it open streams until it has replied
	opening  bool           // a stream that is not ignored is added
	refusing bool           // streams that the client opens are ignored
	ending   bool           // nothing is sent after what is in the output
}

// Times of the end of a connection.
const (
	// drainReply is how long a client has to reply to the ping after the first GOAWAY.
	drainReply = 5 * time.Second
	// lingerTime is how long the server waits for a client to close the connection.
	lingerTime = time.Second
)

// startTimers starts what happens at a time.
func (c *conn) startTimers() {
	o := &c.server.options
	age := time.Duration(float64(o.MaxAge) * (0.9 + 0.2*rand.Float64()))
	c.startTimer(aging, age, func() {
		c.drain()
		c.startTimer(aging, o.MaxAgeGrace, c.abort)
	})
}

// The timers of a connection.
const aging, ending = 0, 1

// startTimer calls f after d, unless the connection is closed before.
func (c *conn) startTimer(timer int, d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.timers[timer] = time.AfterFunc(d, f)
	}
}

// drain asks the client to use another connection. Streams that it opens until it has replied are served.
func (c *conn) drain() {
	c.mu.Lock()
	if c.draining || c.closed {
		c.mu.Unlock()
		return
	}
	c.draining = true
	if !c.started {
		c.shut()
		c.mu.Unlock()
		return
	}
	c.timers[ending] = time.AfterFunc(drainReply, c.refuse)
	c.out = appendGoAway(c.out, math.MaxInt32, http2.ErrCodeNo, "")
	c.out = appendFrame(c.out, len(drainPing), http2.FramePing, 0, 0, drainPing[:]...)
	c.sendAndUnlock()
}

// refuse is the second step of drain: the connection ends with the streams that are open.
func (c *conn) refuse() {
	c.mu.Lock()
	if c.refusing || !c.draining {
		c.mu.Unlock()
		return
	}
	c.refusing = true
	c.resetAnswered()
	c.out = appendGoAway(c.out, c.served, http2.ErrCodeNo, "")
	c.ending = len(c.streams) == 0 && !c.opening
	c.sendAndUnlock()
}

// goAway ends the connection because of an error of the client.
func (c *conn) goAway(code http2.ErrCode, debug string) {
	c.mu.Lock()
	c.out = appendGoAway(c.out, c.served, code, debug)
	c.ending = true
	c.sendAndUnlock()
	c.linger()
}

// linger reads until the client closes the connection. If the server closed it with something unread, TCP would drop what the client has not
// read.
func (c *conn) linger() {
	_ = c.raw.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, c.raw)
}

// halfClose closes the connection for writing. The caller has the mutex.
func (c *conn) halfClose() {
	half, ok := c.raw.(interface{ CloseWrite() error }) // that of TLS is hidden by grpc-go
	if !ok || half.CloseWrite() != nil {
		c.shut()
		return
	}
	c.closed = true
	c.changed.Broadcast()
	_ = c.raw.SetReadDeadline(time.Now().Add(lingerTime))
}

// abort closes the connection. Its calls end without a response.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut()
}

// shut closes the connection. The caller has the mutex.
func (c *conn) shut() {
	c.closed = true
	_ = c.raw.Close() // nothing waits for the client, as TLS would
	c.changed.Broadcast()
}

// close ends the calls of the connection.
func (c *conn) close() {
	c.flush() // the reason
	c.mu.Lock()
	c.shut()
	for _, t := range c.timers {
		if t != nil {
			t.Stop()
		}
	}
	open := make([]uint32, 0, len(c.streams))
	for id := range c.streams {
		open = append(open, id)
	}
	c.mu.Unlock()
	for _, id := range open {
		c.drop(id)
	}
	c.releaseBlock()
	c.server.remove(c)
}

// remove ends a stream. The caller has the mutex.
func (c *conn) remove(s *stream) {
	if s.answered {
		c.answered--
		if s.ended {
			c.completed++
		}
	}
	c.discharge(s, s.charged)
	delete(c.streams, s.id)
	c.ended.add(s.id, false)
	c.ending = c.ending || c.refusing && !c.opening && len(c.streams) == 0
	c.changed.Broadcast()
}
