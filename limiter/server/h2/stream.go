package h2

import (
	"context"
	"encoding/binary"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream is a call. The mutex of its connection guards the fields unless they have another comment.
type stream struct {
	conn   *conn
	id     uint32
	method *method            // nil for a call of the fallback
	ctx    context.Context    //nolint:containedctx // a stream carries the context of its call
	cancel context.CancelFunc // of ctx

	// Of the request. Only the goroutine that reads the connection uses these fields.
	message  []byte // with its header
	declared int64  // the content-length that is left, or -1

	ended      bool // the client sends no more
	window     int  // bytes that the client can still send
	sendWindow int
	pending    []byte // waits for a window
	trailer    []byte // a header block that ends the response, after pending
	running    bool   // a worker has the call
	reset      bool   // nothing more is sent
	answered   bool   // the response was sent
	exchange   *exchange
}

// collect adds data to the message of a call. The error is that of a message that is too large.
func (s *stream) collect(data []byte) error {
	s.message = append(s.message, data...)
	if len(s.message) < messageHeader {
		return nil
	}
	return checkLength(binary.BigEndian.Uint32(s.message[1:]), s.conn.server.options.MaxMessage)
}

func checkLength(length uint32, most int) error {
	if int64(length) > int64(most) {
		return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", length, most)
	}
	return nil
}

// check returns why the request of a call is not one message, after it has ended. The errors are those of grpc-go.
func (s *stream) check() error {
	if len(s.message) == 0 {
		return violation("no request message")
	}
	rest, err := s.checkMessage(s.message)
	if err != nil || len(rest) == 0 {
		return err
	}
	if _, err := s.checkMessage(rest); err != nil {
		return err
	}
	return violation("multiple request messages")
}

// checkMessage checks the message at the start of b, and returns what follows it.
func (s *stream) checkMessage(b []byte) (rest []byte, err error) {
	if len(b) < messageHeader {
		return nil, status.Error(codes.Internal, io.ErrUnexpectedEOF.Error())
	}
	length := binary.BigEndian.Uint32(b[1:])
	if err := checkLength(length, s.conn.server.options.MaxMessage); err != nil {
		return nil, err
	}
	if len(b)-messageHeader < int(length) {
		return nil, status.Error(codes.Internal, io.ErrUnexpectedEOF.Error())
	}
	switch b[0] {
	case 0:
		return b[messageHeader+int(length):], nil
	case 1:
		return nil, status.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
	}
	return nil, status.Errorf(codes.Internal, "grpc: received unexpected payload format %d", b[0])
}

func violation(what string) error {
	return status.Error(codes.Internal, "cardinality violation: received "+what+" from non-client-streaming RPC")
}

// run serves a call on a worker.
func (s *stream) run(o *worker) {
	if s.exchange != nil {
		s.exchange.serve()
		return
	}
	out, err := s.method.Serve(s.ctx, s.message[messageHeader:], o.scratch[:0])
	s.cancel()
	s.conn.respond(s, out, err)
	if err == nil && cap(out) <= maxScratch {
		o.scratch = out
	}
}

// maxScratch bounds the memory that an idle worker keeps, in bytes.
const maxScratch = 16 << 10
