package h2

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// onRequest opens a stream for the header block that was read.
func (c *conn) onRequest() error {
	id := c.open.stream
	if ignored := c.enter(id); ignored {
		return c.spend()
	}
	defer c.entered()
	h := c.header
	switch {
	case h.tooLarge:
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeFrameSize}
	case h.malformed, c.open.self, h.pseudo.method == "", h.pseudo.path == "", h.pseudo.scheme == "":
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	}
	open, err := c.slot()
	if err != nil {
		return err
	}
	if !open {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	}
	s := &stream{conn: c, id: id, method: c.server.methods[h.pseudo.path], window: c.streamWindow(), declared: h.length}
	if !c.charge(s, streamCost) {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	}
	if k, refused := c.parse(h); refused != nil {
		c.answer(s, refused)
	} else if s.method == nil {
		c.answer(s, unimplemented(h.pseudo.path))
	} else {
		c.announce(s, k)
	}
	if c.open.ended {
		return c.endRequest(s)
	}
	return nil
}

// enter counts a stream. It reports whether the stream is ignored, because it came after the last GOAWAY.
func (c *conn) enter(id uint32) (ignored bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.input.busy = id, true
	if !c.refusing {
		c.served, c.opening = id, true
	}
	return c.refusing
}

// entered is called when the stream was added, or was not. The connection may have waited for this to end.
func (c *conn) entered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening = false
	c.ending = c.ending || c.refusing && len(c.streams) == 0
}

// slot reports whether the client can open a stream. A stream that the client has reset counts until its handler has ended: it waits for
// this, because for the client, the stream has ended.
func (c *conn) slot() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.server.options.MaxStreams
	for !c.closed && len(c.streams) >= most && c.resets > 0 {
		c.wait()
	}
	if len(c.streams) >= most {
		c.resetAnswered()
		return len(c.streams) < most, c.budget.spend() // the streams were searched
	}
	return true, nil
}

// charge takes n bytes of the buffers for a stream. It reports whether there is room.
func (c *conn) charge(s *stream, n int) bool {
	if !c.server.buffers.Take(c.buffers, n) {
		return false
	}
	s.charged += n
	return true
}

// discharge releases n bytes of what a stream has of the buffers. A stream that has ended has nothing.
func (c *conn) discharge(s *stream, n int) {
	n = min(n, s.charged)
	c.server.buffers.Give(c.buffers, n)
	s.charged -= n
}

// resetAnswered resets the streams that have their response and whose request has not ended. The caller has the mutex.
func (c *conn) resetAnswered() {
	if c.answered == 0 { // as in an overload: the client has too many calls in progress
		return
	}
	for id, s := range c.streams {
		if s.answered {
			c.out = appendReset(c.out, id, http2.ErrCodeNo)
			c.remove(s)
			c.ended.add(id, true)
		}
	}
}

// call is the header of a call.
type call struct {
	timeout  time.Duration
	timed    bool // it has a timeout
	metadata metadata.MD
}

// parse returns the call of a header block, or the response to a request that is refused before its message is read.
func (c *conn) parse(h *headerBlock) (k call, refused []byte) {
	kind := ""
	for i := range h.fields {
		switch name, value := h.fields[i].Name, h.fields[i].Value; name {
		case "content-type":
			kind = value
		case "grpc-encoding":
			if value != "identity" && value != "" {
				refused = refusal(http.StatusOK, codes.Unimplemented, "the message is compressed", "grpc-accept-encoding", "identity")
			}
		case "grpc-timeout":
			if k.timeout, k.timed = parseTimeout(value); !k.timed {
				refused = refusal(http.StatusBadRequest, codes.Internal, "grpc-timeout is invalid")
			} else if k.timeout == 0 {
				refused = refusal(http.StatusOK, codes.DeadlineExceeded, context.DeadlineExceeded.Error())
			}
		default:
			if slices.Contains(c.server.options.Metadata, name) {
				if k.metadata == nil {
					k.metadata = metadata.MD{}
				}
				k.metadata.Append(name, value)
			}
		}
	}
	switch {
	case h.pseudo.method != http.MethodPost:
		refused = refusal(http.StatusMethodNotAllowed, codes.Internal, "the method of a call must be POST", "allow", http.MethodPost)
	case !isGRPC(kind):
		refused = refusal(http.StatusUnsupportedMediaType, codes.InvalidArgument, "the content-type of a call must be application/grpc")
	}
	return k, refused
}

// unimplemented returns the response to a call of a method that the server does not have, as grpc-go does.
func unimplemented(path string) []byte {
	service, name, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	message := fmt.Sprintf("malformed method name: %q", clip(path))
	if found && path[0] == '/' {
		message = fmt.Sprintf("unknown method %s of service %s: this port has no streams and no reflection", clip(name), clip(service))
	}
	return refusal(http.StatusOK, codes.Unimplemented, message)
}

// clip shortens a name from the client for a message.
func clip(name string) string {
	const most = 128
	if len(name) <= most {
		return name
	}
	return name[:most] + "…"
}

// refusal returns the header block of a response without a message, with more fields.
func refusal(httpStatus int, code codes.Code, message string, more ...string) []byte {
	b := appendLiteral(nil, ":status", strconv.Itoa(httpStatus))
	b = appendLiteral(b, "content-type", "application/grpc")
	for field := range slices.Chunk(more, 2) {
		b = appendLiteral(b, field[0], field[1])
	}
	return appendTrailer(b, code, message)
}

func isGRPC(contentType string) bool {
	rest, found := strings.CutPrefix(contentType, "application/grpc")
	return found && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// announce adds a call that the server serves itself, or rejects it.
func (c *conn) announce(s *stream, k call) {
	ctx, admitted := c.base, true
	if k.metadata != nil {
		ctx = metadata.NewIncomingContext(ctx, k.metadata)
	}
	if s.method.Announce != nil {
		ctx, admitted = s.method.Announce(ctx)
	}
	if !admitted {
		c.answer(s, s.method.rejected)
		return
	}
	s.ctx, s.cancel = withTimeout(ctx, k.timeout, k.timed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[s.id] = s
}

// answer responds to a request before it has ended. What the client still sends is ignored.
func (c *conn) answer(s *stream, block []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[s.id] = s
	c.finish(s, block)
}

func withTimeout(ctx context.Context, timeout time.Duration, timed bool) (context.Context, context.CancelFunc) {
	if timed {
		return context.WithTimeout(ctx, timeout)
	}
	return context.WithCancel(ctx)
}

// take adds DATA to a request.
func (c *conn) take(s *stream, data []byte) error {
	if s.declared >= 0 {
		if s.declared -= int64(len(data)); s.declared < 0 {
			return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
		}
	}
	if s.answered {
		return nil
	}
	if !c.hold(s, len(data)) {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeEnhanceYourCalm}
	}
	if err := s.collect(data); err != nil {
		c.fail(s, err)
	}
	return nil
}

// hold accounts for n bytes of an incomplete message. It reports whether there is room for them.
func (c *conn) hold(s *stream, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.charge(s, n)
}

// endRequest ends a request: a call has its message now.
func (c *conn) endRequest(s *stream) error {
	c.mu.Lock()
	s.ended = true
	c.mu.Unlock()
	if s.declared > 0 {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	if s.answered {
		c.mu.Lock()
		c.remove(s)
		c.mu.Unlock()
		return nil
	}
	if err := s.check(); err != nil {
		c.fail(s, err)
		return nil
	}
	c.mu.Lock()
	c.discharge(s, len(s.message))
	c.held += len(s.message)
	s.running = true
	c.mu.Unlock()
	if s.method.Inline {
		s.run(&c.inline)
	} else {
		c.server.workers.run(s)
	}
	return nil
}

// fail ends a call whose message cannot be read.
func (c *conn) fail(s *stream, err error) {
	c.forget(s, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(s, trailersOnly(statusOf(err)))
}

// forget ends a call that no worker has.
func (c *conn) forget(s *stream, err error) {
	if s.method.Fail != nil {
		s.method.Fail(s.ctx, err)
	}
	s.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.discharge(s, len(s.message))
	s.message = nil
}

// onReset ends a stream that the client has reset.
func (c *conn) onReset(f *http2.RSTStreamFrame) error {
	if c.isIdle(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	s := c.streams[f.StreamID]
	paid := s != nil && s.ended && !s.reset
	c.mu.Unlock()
	if paid {
		c.budget.earn(1) // a call whose client waits no longer: its handler has ended before the client can open more streams
	}
	c.drop(f.StreamID)
	return nil
}

// abortStream resets a stream.
func (c *conn) abortStream(id uint32, code http2.ErrCode) {
	c.drop(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended.add(id, true)
	c.out = appendReset(c.out, id, code)
}

var errReset = status.Error(codes.Canceled, context.Canceled.Error())

// drop ends a stream without a response. If a worker has it, it counts until that has ended.
func (c *conn) drop(id uint32) {
	c.mu.Lock()
	s := c.streams[id]
	if s == nil || s.reset {
		c.mu.Unlock()
		return
	}
	s.reset = true
	running, answered := s.running, s.answered || s.trailer != nil
	if running {
		c.resets++
	} else {
		c.remove(s)
	}
	if s.pending != nil {
		c.blocked = slices.DeleteFunc(c.blocked, func(one *stream) bool { return one == s })
	}
	c.mu.Unlock()
	switch {
	case running:
		s.cancel()
	case !answered:
		c.forget(s, errReset)
	}
}
