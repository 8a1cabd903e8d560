package h1

import (
	"bytes"
	"context"
	"crypto/tls"
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
	nc       net.Conn
	secured  *tls.ConnectionState // nil without TLS
	address  string
	state    atomic.Int32
	read     time.Time // the deadline of reads
	written  time.Time // the deadline of writes

	in         []byte
	start, end int // in[start:end] was received and is not read yet

	head     head
	base     *http.Request // with the context of the requests
	request  http.Request
	url      url.URL
	parsed   *url.URL // of the last request
	target   string   // of the last request
	body     body
	response response
	watch    atomic.Pointer[watch] // nil unless the handler wants to know whether the client is there
}

func newConn(s *Server, l *handover, nc net.Conn) *conn {
	c := &conn{server: s, handover: l, nc: nc, in: make([]byte, bufferSize)}
	c.head.names = map[string]string{}
	c.head.fields = http.Header{}
	c.response.header = http.Header{}
	c.body.conn = c
	c.base = new(http.Request).WithContext(&requestContext{c})
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
	c.endWatch()
	_ = c.nc.Close()
}

// secure does the handshake of TLS, which has a deadline. It returns false if net/http has to serve the connection, or to report the error of the handshake.
func (c *conn) secure() bool {
	if c.server.tls == nil {
		return true
	}
	secured := tls.Server(c.nc, c.server.tls)
	c.nc = secured
	if err := secured.SetDeadline(time.Now().Add(c.server.rest.ReadHeaderTimeout)); err != nil {
		return false
	}
	if err := secured.HandshakeContext(context.Background()); err != nil {
		return false
	}
	state := secured.ConnectionState()
	c.secured = &state
	return state.NegotiatedProtocol != "h2"
}

// handOver gives the connection to net/http, which reads first what was not answered.
func (c *conn) handOver() {
	if c.start == c.end {
		c.handover.give(c.nc)
		return
	}
	again := replay{Conn: c.nc, received: c.in[c.start:c.end]}
	if c.secured == nil {
		c.handover.give(&again)
		return
	}
	c.handover.give(&securedReplay{again, c.secured})
}

// replay is a connection that begins with what was received already.
type replay struct {
	net.Conn

	received []byte
}

// Read implements net.Conn.
func (r *replay) Read(p []byte) (int, error) {
	if len(r.received) == 0 {
		return r.Conn.Read(p) //nolint:wrapcheck // it is that connection
	}
	n := copy(p, r.received)
	r.received = r.received[n:]
	return n, nil
}

// securedReplay has what net/http wants to know of a connection with TLS.
type securedReplay struct {
	replay

	state *tls.ConnectionState
}

// ConnectionState returns the state of TLS.
func (r *securedReplay) ConnectionState() tls.ConnectionState { return *r.state }

// serve answers requests until the connection ends. It returns false if net/http has to serve the rest.
func (c *conn) serve() (ended bool) {
	for wait := c.server.rest.ReadHeaderTimeout; c.await(wait); wait = c.server.rest.IdleTimeout {
		size, err := c.readHead()
		if err != nil {
			return true
		}
		if size == 0 || !c.parse(string(c.in[c.start:c.start+size])) {
			return false
		}
		c.start += size
		if !c.answer() {
			return true
		}
	}
	return true
}

// await waits for the first byte of a request. It returns false if the connection ends.
func (c *conn) await(wait time.Duration) bool {
	if c.start < c.end {
		return !c.server.stopping.Load()
	}
	c.start, c.end = 0, 0
	c.state.Store(idle)
	if c.server.stopping.Load() {
		return false
	}
	if now := time.Now(); c.read.Before(now.Add(wait)) {
		c.setRead(now.Add(wait + slack))
	}
	err := c.fill()
	return c.state.CompareAndSwap(idle, active) && err == nil
}

// closeIdle closes the connection if it waits for a request.
func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(idle, closed) {
		c.close()
	}
}

func (c *conn) close() { _ = c.nc.Close() }

// readHead reads until the head of a request is complete, and returns its size. It returns 0 if net/http has to read it.
func (c *conn) readHead() (size int, err error) {
	newlines := 0 // that can precede the request
	if c.request.Method == http.MethodPost {
		newlines = len(endOfHead)
	}
	searched := 0
	for waiting := false; ; {
		newlines = c.skip(newlines)
		got := c.in[c.start:c.end]
		if at := bytes.Index(got[searched:], []byte(endOfHead)); at >= 0 {
			return searched + at + len(endOfHead), nil
		}
		if len(got) == len(c.in) || hasBareNewline(got) {
			return 0, nil
		}
		searched = max(0, len(got)-len(endOfHead)+1)
		c.compact()
		if !waiting {
			waiting = true
			c.setRead(time.Now().Add(c.server.rest.ReadHeaderTimeout))
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// skip skips up to most characters of the newline that old clients send after the body of a POST, as net/http does. It returns how many more
// can follow.
func (c *conn) skip(most int) int {
	for ; most > 0 && c.start < c.end; most-- {
		if next := c.in[c.start]; next != '\r' && next != '\n' {
			return 0
		}
		c.start++
	}
	return most
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
	c.endWatch()
	read := c.body.discard()
	keep := read && !request.Close && !c.response.closes() && !c.server.stopping.Load()
	now := time.Now()
	if limit := c.server.rest.WriteTimeout; c.written.Before(now.Add(limit)) {
		c.written = now.Add(limit + slack)
		_ = c.nc.SetWriteDeadline(c.written) // then the write fails
	}
	_, err := c.nc.Write(c.response.finish(c.server.dateAt(now), keep))
	return keep && err == nil
}

// newRequest returns the request whose head was parsed. The next one uses its memory.
func (c *conn) newRequest(began time.Time) *http.Request {
	h, r := &c.head, &c.request
	*r, c.url = *c.base, *c.parsed
	r.Method, r.URL, r.RequestURI = h.method, &c.url, c.target
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Header, r.Host, r.ContentLength, r.Close = h.fields, h.host, h.length, h.closes
	r.RemoteAddr, r.TLS = c.address, c.secured
	r.Body = http.NoBody
	c.body.reset(h.length, began)
	if h.length > 0 {
		r.Body = &c.body
	}
	return r
}
