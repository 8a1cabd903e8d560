package h1

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// bufferSize bounds the heads of requests that a Server reads itself, in bytes.
const bufferSize = 8 << 10

// slack is how much later than necessary the deadlines of a connection can be. A deadline costs a lock and a timer, so one serves for the
// requests of a second.
const slack = time.Second

const endOfHead = "\r\n\r\n"

// The states of a connection.
const (
	active int32 = iota
	idle         // waits for the first byte of a request
	closed
)

// conn is a connection. Its goroutine uses all fields but state.
type conn struct {
	server   *Server
	handover *handover
	raw      net.Conn // below TLS
	nc       net.Conn
	tls      *tls.Conn            // nc, or nil without TLS
	secured  *tls.ConnectionState // nil without TLS
	address  string
	state    atomic.Int32
	read     time.Time // the deadline of reads
	written  time.Time // the deadline of writes

	in         []byte
	start, end int // in[start:end] was received and is not read yet

	head     head
	url      url.URL
	parsed   *url.URL // of the last request
	target   string   // of the last request
	body     body
	response response
	context  *requestContext // of the request in progress
	newlines int             // that can precede the next request
}

func newConn(s *Server, l *handover, nc net.Conn) *conn {
	c := &conn{server: s, handover: l, raw: nc, nc: nc, in: make([]byte, bufferSize)}
	c.head.names = map[string]string{}
	c.head.fields = http.Header{}
	c.response.header = http.Header{}
	c.body.conn = c
	if s.tls != nil {
		c.tls = tls.Server(nc, s.tls)
		c.nc = c.tls
	}
	return c
}

// run serves the connection until it is closed or handed over.
func (c *conn) run() {
	defer c.server.remove(c)
	defer c.recover()
	c.address = c.nc.RemoteAddr().String()
	if c.secure() && c.serve() {
		_ = c.nc.Close()
		return
	}
	c.handOver()
}

// recover closes the connection of a request whose handler has panicked.
func (c *conn) recover() {
	reason := recover()
	if reason == nil {
		return
	}
	if reason != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		logger := c.server.rest.ErrorLog
		if logger == nil {
			logger = log.Default()
		}
		logger.Printf("http: panic serving %s: %v\n%s", c.address, reason, debug.Stack())
	}
	c.endContext()
	_ = c.nc.Close()
}

// secure does the handshake of TLS, which has a deadline. It returns false if net/http has to serve the connection, or to report the error of the
// handshake.
func (c *conn) secure() bool {
	if c.tls == nil {
		return true
	}
	if err := c.tls.SetDeadline(time.Now().Add(c.server.rest.ReadHeaderTimeout)); err != nil {
		return false
	}
	if err := c.tls.HandshakeContext(context.Background()); err != nil {
		return false
	}
	state := c.tls.ConnectionState()
	c.secured = &state
	_ = c.tls.SetDeadline(time.Time{}) // then it is closed
	return state.NegotiatedProtocol != "h2"
}

// serve answers requests until the connection ends. It returns false if net/http has to serve the rest.
func (c *conn) serve() (ended bool) {
	first := time.Now().Add(c.server.rest.ReadHeaderTimeout) // of the whole first head
	for c.await(first) {
		size, err := c.readHead(first)
		if err != nil {
			return !errors.Is(err, io.EOF) // net/http reports a head that ends early
		}
		if size == 0 || !c.parse(string(c.in[c.start:c.start+size])) {
			return false
		}
		c.start += size
		if !c.answer() {
			return true
		}
		first = time.Time{}
	}
	return true
}

// await waits for the first byte of a request. It returns false if the connection ends. by is zero for a request after another one.
func (c *conn) await(by time.Time) bool {
	for c.skipNewlines(); c.start == c.end; c.skipNewlines() {
		c.start, c.end = 0, 0
		c.state.Store(idle)
		if c.server.stopping.Load() {
			return false
		}
		c.setIdle(by)
		err := c.fill()
		if !c.state.CompareAndSwap(idle, active) || err != nil {
			return false
		}
	}
	return !c.server.stopping.Load()
}

// setIdle sets the deadlines of a connection that waits for a request.
func (c *conn) setIdle(by time.Time) {
	if !by.IsZero() {
		c.setRead(by)
		return
	}
	wait := c.server.rest.IdleTimeout
	if now := time.Now(); c.read.Before(now.Add(wait)) {
		c.setRead(now.Add(wait + slack))
	}
	if c.tls != nil { // which writes when the client changes its keys
		c.setWritten(time.Time{})
	}
}

// skipNewlines skips the newline that old clients send after the body of a POST, as net/http does.
func (c *conn) skipNewlines() {
	for ; c.newlines > 0 && c.start < c.end; c.newlines-- {
		if next := c.in[c.start]; next != '\r' && next != '\n' {
			c.newlines = 0
			return
		}
		c.start++
	}
}

// closeIdle closes the connection if it waits for a request.
func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(idle, closed) {
		_ = c.nc.Close()
	}
}

// close closes the connection, and does not wait for the client, as TLS would.
func (c *conn) close() { _ = c.raw.Close() }

// readHead reads until the head of a request is complete, and returns its size. It returns 0 if net/http has to read it.
func (c *conn) readHead(by time.Time) (size int, err error) {
	for searched := 0; ; {
		got := c.in[c.start:c.end]
		if at := bytes.Index(got[searched:], []byte(endOfHead)); at >= 0 {
			return searched + at + len(endOfHead), nil
		}
		if len(got) == len(c.in) || hasBareNewline(got) {
			return 0, nil
		}
		searched = max(0, len(got)-len(endOfHead)+1)
		c.compact()
		if by.IsZero() {
			by = time.Now().Add(c.server.rest.ReadHeaderTimeout)
			c.setRead(by)
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// hasBareNewline reports whether a line does not end in CR LF. net/http accepts such lines.
func hasBareNewline(text []byte) bool {
	for at := 0; ; {
		next := bytes.IndexByte(text[at:], '\n')
		if next < 0 {
			return false
		}
		at += next
		if at == 0 || text[at-1] != '\r' {
			return true
		}
		at++
	}
}

// compact makes room at the end of the buffer.
func (c *conn) compact() {
	if c.start > 0 {
		c.end = copy(c.in, c.in[c.start:c.end])
		c.start = 0
	}
}

// fill reads more into the buffer, which has room.
func (c *conn) fill() error {
	n, err := c.nc.Read(c.in[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	return err //nolint:wrapcheck // it is this connection
}

// setRead sets the deadline of reads.
func (c *conn) setRead(by time.Time) {
	c.read = by
	_ = c.nc.SetReadDeadline(by) // then the read fails
}

// setWritten sets the deadline of writes.
func (c *conn) setWritten(by time.Time) {
	c.written = by
	_ = c.nc.SetWriteDeadline(by) // then the write fails
}

// parse reads the head of a request. It returns false if net/http has to do that.
func (c *conn) parse(text string) bool {
	if !c.head.parse(text) {
		return false
	}
	if c.parsed == nil || c.head.target != c.target {
		target := strings.Clone(c.head.target)
		parsed, err := url.ParseRequestURI(target)
		if err != nil {
			return false
		}
		c.parsed, c.target = parsed, target
	}
	return true
}

// answer calls the handler, and sends the response. It reports whether the connection remains open.
func (c *conn) answer() bool {
	began := time.Now()
	request := c.newRequest(began)
	c.response.reset()
	c.server.rest.Handler.ServeHTTP(&c.response, request)
	c.endContext()
	read := c.body.discard()
	keep := read && !request.Close && !c.response.closes() && !c.server.stopping.Load()
	now := time.Now()
	if limit := c.server.rest.WriteTimeout; c.written.Before(now.Add(limit)) {
		c.setWritten(now.Add(limit + slack))
	}
	_, err := c.nc.Write(c.response.finish(c.server.dateAt(now), keep))
	return keep && err == nil
}

// newRequest returns the request whose head was parsed. The next one uses the memory of its header and URL.
func (c *conn) newRequest(began time.Time) *http.Request {
	h := &c.head
	c.body.reset(h.length, began)
	c.context = &requestContext{conn: c}
	r := new(http.Request).WithContext(c.context)
	c.url = *c.parsed
	r.Method, r.URL, r.RequestURI = h.method, &c.url, c.target
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Header, r.Host, r.ContentLength, r.Close = h.fields, h.host, h.length, h.closes
	r.RemoteAddr, r.TLS = c.address, c.secured
	r.Body = http.NoBody
	if h.length > 0 {
		r.Body = &c.body
	}
	c.newlines = 0
	if h.method == http.MethodPost {
		c.newlines = len(endOfHead)
	}
	return r
}
