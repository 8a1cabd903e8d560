package h2

import (
	"context"
	"encoding/binary"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream is a call. The mutex of its connection guards the fields unless they have another comment.
type stream struct {
	conn   *conn
	id     uint32
	method *method            // nil for a call of an unknown method, which is answered
	ctx    context.Context    //nolint:containedctx // a stream carries the context of its call
	cancel context.CancelFunc // of ctx

	// Of the request. Only the goroutine that reads the connection uses these fields.
	message  []byte // with its header
	declared int64  // the content-length that is left, or -1

	ended      bool   // the client sends no more
	window     int    // bytes that the client can still send
	sendWindow int    // bytes that the server can still send, without the initial window
	pending    []byte // waits for a window
	trailer    []byte // a header block that ends the response, after pending
	running    bool   // a worker has the call
	reset      bool   // nothing more is sent
	answered   bool   // the response was sent
	charged    int    // bytes of the buffers
}

// collect adds data to the message of a call. The error is that of a message that is too large.
func (s *stream) collect(data []byte) error {
	s.message = append(s.message, data...)
	if len(s.message) < messageHeader {
		return nil
	}
	length, most := binary.BigEndian.Uint32(s.message[1:]), s.method.MaxMessage
	if int64(length) > int64(most) {
		return status.Errorf(codes.ResourceExhausted, "received message larger than max (%d vs. %d)", length, most)
	}
	return nil
}

// check returns why the request of a call, which has ended, is not one message that is not compressed.
func (s *stream) check() error {
	if len(s.message) < messageHeader {
		return status.Error(codes.Internal, "the request has no complete message")
	}
	switch rest := len(s.message) - messageHeader - int(binary.BigEndian.Uint32(s.message[1:])); {
	case s.message[0] != 0:
		return status.Error(codes.Internal, "the message has a flag, but the call has no grpc-encoding")
	case rest < 0:
		return status.Error(codes.Internal, "the request has no complete message")
	case rest > 0:
		return status.Error(codes.Internal, "the request has more than one message")
	}
	return nil
}

// run serves a call on a worker.
func (s *stream) run(o *worker) {
	out, err := s.method.Serve(s.ctx, s.message[messageHeader:], o.scratch[:0])
	s.cancel()
	s.conn.respond(s, out, err)
	if err == nil && cap(out) <= maxScratch {
		o.scratch = out
	}
}

// maxScratch bounds the memory that an idle worker keeps, in bytes.
const maxScratch = 16 << 10

// closedStreams remembers the streams that have ended last. A client that has not seen the end still sends frames of them.
type closedStreams struct {
	ids   [128]uint32
	reset [128]bool // by the server
	next  int
}

func (c *closedStreams) add(id uint32, reset bool) {
	c.ids[c.next], c.reset[c.next] = id, reset
	c.next = (c.next + 1) % len(c.ids)
}

// find reports whether a stream is one of the last that have ended, and whether the server has reset it.
func (c *closedStreams) find(id uint32) (found, reset bool) {
	for i := range c.ids {
		if c.ids[i] == id {
			found, reset = true, reset || c.reset[i]
		}
	}
	return found, reset
}
