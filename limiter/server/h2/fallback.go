package h2

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
)

// exchange is a call that the fallback serves. It is the body of its request, and an http.ResponseWriter. The mutex of the connection
// guards body, failure, closed and unacked.
type exchange struct {
	stream  *stream
	request *http.Request
	changed *sync.Cond
	body    []byte // received and not read
	failure error  // after body: io.EOF, or why the stream was reset
	closed  bool   // the fallback does not read the body
	unacked int    // bytes that were read and for which the client has no window yet
	left    int    // bytes of body that are the rest of a complete message

	header http.Header // of the response
	sent   bool        // the header block was sent
	buffer []byte      // data that was not flushed
}

// forward makes the fallback serve a request, unless it has too many.
func (c *conn) forward(s *stream) bool {
	c.mu.Lock()
	full := c.forwarded >= maxForwarded
	if !full {
		c.forwarded++
	}
	c.mu.Unlock()
	if full {
		return false
	}
	ctx, cancel := context.WithCancel(c.base)
	s.ctx, s.cancel = ctx, cancel
	e := &exchange{stream: s, changed: sync.NewCond(&c.mu), header: http.Header{}}
	e.request = c.request(e).WithContext(ctx)
	s.exchange, s.running = e, true
	c.mu.Lock()
	s.sendWindow = c.initial
	c.streams[s.id] = s
	c.mu.Unlock()
	c.server.workers.run(s)
	return true
}

// request converts the header block that was read to a request.
func (c *conn) request(body io.ReadCloser) *http.Request {
	h := c.header
	r := &http.Request{
		Method: h.pseudo.method, URL: &url.URL{Path: h.pseudo.path}, Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{}, Body: body,
		Host: h.pseudo.authority, RemoteAddr: c.peer.Addr.String(),
	}
	for i := range h.fields {
		r.Header.Add(textproto.CanonicalMIMEHeaderKey(h.fields[i].Name), h.fields[i].Value)
	}
	if r.Host == "" {
		r.Host = r.Header.Get("Host")
	}
	if info, is := c.peer.AuthInfo.(credentials.TLSInfo); is {
		r.TLS = &info.State
	}
	return r
}

// takeBody adds DATA to the body of a request.
func (c *conn) takeBody(s *stream, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := s.exchange
	if e.closed {
		return nil
	}
	if c.partial+len(data) > maxPartial {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeEnhanceYourCalm}
	}
	c.partial += len(data)
	e.body = append(e.body, data...)
	e.changed.Broadcast()
	return nil
}

// endBody ends the body of a request.
func (c *conn) endBody(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.exchange.failure = io.EOF
	s.exchange.changed.Broadcast()
	if s.answered {
		c.remove(s)
	}
}

// breakOff ends an exchange whose stream was reset.
func (e *exchange) breakOff() {
	mu := e.changed.L
	mu.Lock()
	defer mu.Unlock()
	c := e.stream.conn
	c.partial -= len(e.body)
	e.body, e.left = nil, 0
	e.failure = http2.StreamError{StreamID: e.stream.id, Code: http2.ErrCodeCancel}
	e.changed.Broadcast()
	e.stream.cancel()
}

// serve serves the request on a worker.
func (e *exchange) serve() {
	s, c := e.stream, e.stream.conn
	c.server.options.Fallback.ServeHTTP(e, e.request)
	e.Flush()
	_ = e.Close()
	s.cancel()
	c.mu.Lock()
	s.running = false
	c.forwarded--
	if s.reset {
		c.resets--
		c.remove(s)
	} else {
		c.finish(s, e.trailers())
	}
	c.sendAndUnlock()
}

// Read implements io.Reader. It returns parts of complete messages: grpc-go keeps a buffer of 16 KiB for each part, however small it is. As
// long as responses wait for a window, there is nothing to read: grpc-go reads more than its handler takes.
func (e *exchange) Read(p []byte) (int, error) {
	c := e.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for !e.isReady() {
		if e.unacked > 0 {
			e.renew()
			continue
		}
		e.changed.Wait()
	}
	if e.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(e.body) == 0 {
		return 0, e.failure
	}
	n := copy(p, e.body[:e.left])
	e.body, e.left = e.body[n:], e.left-n
	c.partial -= n
	e.unacked += n
	return n, nil
}

// isReady reports whether Read can return.
func (e *exchange) isReady() bool {
	if e.left == 0 {
		e.left = e.complete()
	}
	return e.closed || e.failure != nil && len(e.body) == 0 || e.left > 0 && (len(e.stream.pending) == 0 || e.failure != nil)
}

// complete returns the size of the complete message at the start of the body. A message that is too large, or at the end, counts as it is.
func (e *exchange) complete() int {
	if e.failure != nil {
		return len(e.body)
	}
	if len(e.body) < messageHeader {
		return 0
	}
	size := messageHeader + int64(binary.BigEndian.Uint32(e.body[1:]))
	if size > int64(e.stream.conn.streamWindow()) {
		return len(e.body)
	}
	if int64(len(e.body)) < size {
		return 0
	}
	return int(size)
}

// renew lets the client send as much as was read. The caller has the mutex, which it unlocks for a time.
func (e *exchange) renew() {
	s, c := e.stream, e.stream.conn
	n := e.unacked
	e.unacked = 0
	if s.reset {
		return
	}
	c.grant(s, n)
	c.sendAndUnlock()
	c.mu.Lock()
}

// Close implements io.Closer.
func (e *exchange) Close() error {
	c := e.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partial -= len(e.body)
	e.body, e.left, e.closed = nil, 0, true
	e.changed.Broadcast()
	return nil
}

// Header implements http.ResponseWriter.
func (e *exchange) Header() http.Header { return e.header }

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(status int) {
	if e.sent {
		return
	}
	e.sent = true
	block := appendLiteral(nil, ":status", strconv.Itoa(status))
	trailers := e.declared()
	for name, values := range e.header {
		if name == "Trailer" || trailers[name] || strings.HasPrefix(name, http.TrailerPrefix) {
			continue
		}
		block = appendFields(block, name, values)
	}
	s, c := e.stream, e.stream.conn
	c.mu.Lock()
	if !s.reset {
		c.appendHeaders(s.id, block, false)
		c.responded = true
	}
	c.mu.Unlock()
}

// declared returns the names of the fields that follow the response.
func (e *exchange) declared() map[string]bool {
	names := map[string]bool{}
	for _, list := range e.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			names[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return names
}

// trailers returns the header block after the response.
func (e *exchange) trailers() []byte {
	block := []byte{}
	trailers := e.declared()
	for name, values := range e.header {
		undeclared, is := strings.CutPrefix(name, http.TrailerPrefix)
		if is || trailers[name] {
			block = appendFields(block, undeclared, values)
		}
	}
	return block
}

func appendFields(block []byte, name string, values []string) []byte {
	for _, value := range values {
		block = appendLiteral(block, strings.ToLower(name), value)
	}
	return block
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(p []byte) (int, error) {
	e.buffer = append(e.buffer, p...)
	if len(e.buffer) >= maxFrame {
		e.Flush()
	}
	return len(p), e.request.Context().Err() //nolint:wrapcheck // why the stream ended
}

// Flush implements http.Flusher. It waits until the windows of the client allow the data.
func (e *exchange) Flush() {
	e.WriteHeader(http.StatusOK)
	s, c := e.stream, e.stream.conn
	c.mu.Lock()
	if s.reset || c.closed {
		c.mu.Unlock()
		return
	}
	s.pending = append(s.pending, e.buffer...)
	e.buffer = e.buffer[:0]
	c.block(s)
	c.sendAndUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(s.pending) > 0 && !s.reset {
		e.changed.Wait()
	}
	for len(c.out) > maxOut && !c.closed && !s.reset {
		c.changed.Wait()
	}
}
