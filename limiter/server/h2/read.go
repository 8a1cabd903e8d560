package h2

import (
	"errors"

	"golang.org/x/net/http2"
)

// next reads a frame and handles it. An error is a http2.StreamError, a http2.ConnectionError, or one of the connection below.
func (c *conn) next() error {
	c.input.whole = !c.header.open
	head, err := c.framer.ReadFrameHeader()
	if errors.Is(err, errIdle) {
		c.framer = c.newFramer()
		c.header.release()
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // it is this connection
	}
	frame, err := c.framer.ReadFrameForHeader(head)
	if err != nil {
		if _, ok := err.(http2.StreamError); ok && head.Type == http2.FrameHeaders { //nolint:errorlint // the type of x/net
			return http2.ConnectionError(http2.ErrCodeProtocol) // without the header block, later ones cannot be decoded
		}
		return err //nolint:wrapcheck // it is this connection
	}
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		return c.onHeaders(f)
	case *http2.ContinuationFrame:
		return c.onHeaderBlock(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return c.onData(f)
	}
	if err := c.spend(); err != nil {
		return err
	}
	return c.onControl(frame)
}

// onControl handles a frame that is no part of a request.
func (c *conn) onControl(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.RSTStreamFrame:
		return c.onReset(f)
	case *http2.SettingsFrame:
		return c.onSettings(f)
	case *http2.WindowUpdateFrame:
		return c.onWindowUpdate(f)
	case *http2.PingFrame:
		return c.onPing(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil
}

// request is a HEADERS frame whose header block is being read.
type request struct {
	stream uint32
	ended  bool // no DATA follows
	self   bool // it depends on itself
}

func (c *conn) onHeaders(f *http2.HeadersFrame) error {
	if f.StreamID%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.open = request{stream: f.StreamID, ended: f.StreamEnded(), self: f.HasPriority() && f.Priority.StreamDep == f.StreamID}
	block, last := f.HeaderBlockFragment(), f.HeadersEnded()
	if last && c.header.isKnown(block) {
		return c.onFields()
	}
	c.header.begin()
	return c.onHeaderBlock(block, last)
}

// blockCost is how many bytes of a header list cost a frame of the budget. Those of a usual call cost nothing.
const blockCost = 16 << 10

func (c *conn) onHeaderBlock(fragment []byte, last bool) error {
	if !last {
		if !c.server.buffers.Take(c.buffers, len(fragment)) {
			return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
		}
		c.blockHeld += len(fragment)
	}
	if len(fragment) == 0 {
		if err := c.spend(); err != nil {
			return err
		}
	}
	if err := c.header.read(fragment, last); err != nil || !last {
		return err
	}
	c.releaseBlock()
	for range c.header.size / blockCost {
		if err := c.spend(); err != nil {
			return err
		}
	}
	return c.onFields()
}

// releaseBlock releases what a header block has taken of the buffers until it was complete.
func (c *conn) releaseBlock() {
	if c.blockHeld > 0 {
		c.server.buffers.Give(c.buffers, c.blockHeld)
		c.blockHeld = 0
	}
}

// onFields handles the fields of a header block that is complete.
func (c *conn) onFields() error {
	id := c.open.stream
	if id > c.last {
		return c.onRequest()
	}
	c.mu.Lock()
	s := c.streams[id]
	found, reset := c.ended.find(id)
	ignored := reset && s == nil || s != nil && s.reset
	c.mu.Unlock()
	switch {
	case ignored:
		return c.spend() // the client may not know yet that the stream has ended
	case s != nil:
		return c.onTrailers(s)
	case found:
		return http2.ConnectionError(http2.ErrCodeStreamClosed)
	}
	return http2.ConnectionError(http2.ErrCodeProtocol) // a lower number than that of an earlier stream
}

// onTrailers handles the fields after a request, which end it.
func (c *conn) onTrailers(s *stream) error {
	switch {
	case s.ended:
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeStreamClosed}
	case !c.open.ended, c.header.malformed, c.header.pseudo != pseudoFields{}, c.open.self:
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	case c.header.tooLarge:
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFrameSize}
	}
	return c.endRequest(s)
}

// Parts of a message that are small cost processor time like a control frame, except the last one. For large ones a client may send control frames.
const smallData, largeData = 64, 1 << 10

// onData handles a part of a message.
func (c *conn) onData(f *http2.DataFrame) error {
	length, data := int(f.Length), f.Data()
	if c.isIdle(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if err := c.receive(length); err != nil {
		return err
	}
	s, err := c.spendWindow(f.StreamID, length, length-len(data))
	if err != nil {
		return err
	}
	switch { // a client renews windows for a part of a large message
	case s != nil && len(data) >= largeData:
		c.budget.earn(earnedByData)
	case s == nil, len(data) < smallData && !f.StreamEnded():
		if err := c.spend(); err != nil || s == nil {
			return err
		}
	}
	if err := c.take(s, data); err != nil {
		return err
	}
	if f.StreamEnded() {
		return c.endRequest(s)
	}
	return nil
}

// isIdle reports whether the client has not opened a stream.
func (c *conn) isIdle(id uint32) bool { return id > c.last || id%2 == 0 }

// receive accounts for DATA on the connection. Its window is renewed whether calls have read the data or not: otherwise incomplete
// messages could block the ones that complete them.
func (c *conn) receive(length int) error {
	if length > c.window {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	c.window -= length
	if c.unacked += length; c.unacked < connectionWindow/2 {
		return nil
	}
	c.mu.Lock()
	c.out = appendWindowUpdate(c.out, 0, c.unacked)
	c.mu.Unlock()
	c.window += c.unacked
	c.unacked = 0
	return nil
}

// spendWindow returns the stream of DATA, whose padding does not count. It is nil for one that the server has reset.
func (c *conn) spendWindow(id uint32, length, padding int) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[id]
	reset := s != nil && s.reset
	if s == nil {
		_, reset = c.ended.find(id)
	}
	switch {
	case reset:
		return nil, nil //nolint:nilnil // the client did not know yet that the stream had ended
	case s == nil || s.ended:
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
	case s.window < length:
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeFlowControl}
	}
	s.window -= length
	if padding > 0 {
		c.grant(s, padding)
	}
	return s, nil
}

// grant lets the client send n more bytes on a stream. The caller has the mutex.
func (c *conn) grant(s *stream, n int) {
	s.window += n
	c.out = appendWindowUpdate(c.out, s.id, n)
}
