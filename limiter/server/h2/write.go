package h2

import (
	"runtime"
	"time"

	"golang.org/x/net/http2"
)

// output is what a connection has to send. The mutex of the connection guards it.
type output struct {
	out, spare []byte
	writing    bool // a goroutine writes
	closed     bool // nothing more is sent
	table      tableState
}

// tableState is what the client knows of the dynamic table of HPACK for responses.
type tableState int

const (
	tableDefault tableState = iota // it has the default size
	tableReduced                   // the client has reduced the size, and the next header block must confirm it
	tableEmpty                     // it has the size 0, which the client cannot reduce
)

const (
	// mostOut and leastOut bound when the frames of a client that does not read are not read either, in bytes. All clients together have allOut.
	mostOut, leastOut, allOut = 256 << 10, 16 << 10, 32 << 20
	// maxSpare bounds the buffers that a connection keeps, in bytes.
	maxSpare = 64 << 10
)

// maxOut returns when the frames of a client that does not read are not read either, in bytes.
func (s *Server) maxOut() int {
	return min(mostOut, max(leastOut, allOut/max(1, int(s.open.Load()))))
}

// flush writes what there is to write, unless another goroutine does.
func (c *conn) flush() {
	c.mu.Lock()
	if c.writing || len(c.out) == 0 && !c.ending {
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.writeAndUnlock()
}

// send is called with the mutex, which it unlocks, after something was added to the output. The first goroutine that adds something
// writes, after it has let others run: those of the same batch then add their response, and the connection is written only once.
func (c *conn) sendAndUnlock() {
	if c.writing {
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
	c.writeAndUnlock()
}

// writeAndUnlock writes until the output is empty.
func (c *conn) writeAndUnlock() {
	for len(c.out) > 0 && !c.closed {
		batch := c.out
		c.out = c.spare[:0]
		c.spare = nil
		c.mu.Unlock()
		err := c.write(batch)
		c.mu.Lock()
		if cap(batch) <= maxSpare {
			c.spare = batch
		}
		c.changed.Broadcast()
		if err != nil {
			c.shut()
		}
	}
	c.writing = false
	if c.ending && !c.closed {
		c.halfClose()
	}
	c.mu.Unlock()
}

func (c *conn) write(batch []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.server.options.WriteTimeout)); err != nil {
		return err //nolint:wrapcheck // it closes the connection
	}
	if _, err := c.nc.Write(batch); err != nil || c.nc == c.raw {
		return err //nolint:wrapcheck // it closes the connection
	}
	return c.nc.SetWriteDeadline(time.Time{}) //nolint:wrapcheck // TLS may write when it reads
}

// respond sends the response of a call and ends it.
func (c *conn) respond(s *stream, message []byte, err error) {
	c.mu.Lock()
	s.running = false
	c.held -= len(s.message)
	s.message = nil // the response may wait for a long time
	if s.reset {
		c.resets--
	}
	if s.reset || c.closed {
		c.remove(s)
		c.sendAndUnlock() // the connection may end now
		return
	}
	switch length := messageHeader + len(message); {
	case err != nil:
		c.finish(s, trailersOnly(statusOf(err)))
	case len(c.blocked) == 0 && length <= min(c.frame, c.connection, c.initial+s.sendWindow):
		c.connection -= length
		c.appendHeaders(s.id, headerOK, false)
		c.out = appendMessageHeader(appendFrame(c.out, length, http2.FrameData, 0, s.id), len(message))
		c.out = append(c.out, message...)
		c.finish(s, trailerOK)
	case !c.charge(s, length): // the client gives no window
		c.forsake(s)
	default:
		c.appendHeaders(s.id, headerOK, false)
		s.pending = append(appendMessageHeader(make([]byte, 0, length), len(message)), message...)
		s.trailer = trailerOK
		c.block(s)
	}
	c.sendAndUnlock()
}

// emptyTable is the instruction of HPACK that sets the size of the dynamic table to 0.
const emptyTable = 0x20

// appendHeaders adds a header block to the output. After the client has reduced the size of the dynamic table, the first block begins with a size
// that the table then has (RFC 9113, section 4.3.1): 0, because no block uses the table. The caller has the mutex.
func (c *conn) appendHeaders(stream uint32, block []byte, end bool) {
	if c.table == tableReduced {
		c.table = tableEmpty
		block = append([]byte{emptyTable}, block...)
	}
	c.out = appendHeaders(c.out, stream, block, end)
}

// finish ends a response with a header block, which can be empty. The caller has the mutex.
func (c *conn) finish(s *stream, block []byte) {
	if len(block) == 0 {
		c.out = appendFrame(c.out, 0, http2.FrameData, http2.FlagDataEndStream, s.id)
	} else {
		c.appendHeaders(s.id, block, true)
	}
	s.answered, c.responded = true, true
	c.answered++
	if !s.ended && c.refusing {
		c.out = appendReset(c.out, s.id, http2.ErrCodeNo)
		c.ended.add(s.id, true)
	}
	if s.ended || c.refusing {
		c.remove(s)
	}
}

// forsake resets a stream whose response has no room. The caller has the mutex.
func (c *conn) forsake(s *stream) {
	s.reset = true
	c.remove(s)
	c.ended.add(s.id, true)
	c.out = appendReset(c.out, s.id, http2.ErrCodeEnhanceYourCalm)
}
