package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter/overload"
)

// Bounds of large header lists.
const (
	maxLargeHeaders = 256 << 10 // bytes, as the gRPC endpoints accept
	maxReceived     = 64 << 10  // bytes of a body in HTTP/2 that wait for the handler
	maxFrame        = 16 << 10  // bytes, the smallest bound that HTTP/2 permits
	// maxHeaderMemory bounds the estimated memory of all header lists of a server, in bytes, see [overload.Pool].
	maxHeaderMemory = 16 << 20
	// freeHeaders are the bytes of an incomplete request that are not counted. Each further one counts as memoryOfByte bytes: a line of a header has
	// at least 4 bytes, and an indexed field of HTTP/2 has 1.
	freeHeaders  = 4 << 10
	memoryOfByte = 16
	// memoryOfRequest and memoryOfField are the memory of a request in addition to its texts.
	memoryOfRequest = 1 << 10
	memoryOfField   = 64
	// roomTimeout is how long a connection waits for memory before it is closed.
	roomTimeout = time.Second
)

var errNoRoom = errors.New("the header lists of other connections take the memory that this connection needs")

// AcceptLargeHeaders lets server accept header lists of up to 256 KiB, as proxies can let clients send. It returns the listener to serve. A client that
// reads the bound in the settings of HTTP/2 does not send a longer list, and can then take the server for unavailable. All header lists
// together are bounded: a request without room gets 431, and a connection whose incomplete request has no room is not read and then closed.
func AcceptLargeHeaders(server *http.Server, listener net.Listener) net.Listener {
	pool, calls := overload.NewPool(maxHeaderMemory), new(overload.Shares)
	server.MaxHeaderBytes = maxLargeHeaders
	server.HTTP2 = &http.HTTP2Config{MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: 4 * maxReceived, MaxReceiveBufferPerStream: maxReceived}
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		counted := countedOf(c)
		return context.WithValue(overload.WithShare(ctx, counted.calls), headerConn{}, counted)
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			countedOf(c).awaitRequest()
		}
	}
	next := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(headerConn{}).(*countedConn) //nolint:forcetypeassert // ConnContext sets it
		c.readHeaders(r.ProtoMajor > 1)                     // other requests of a connection arrive while it is decided
		size := headerMemory(r)
		if !pool.Take(c.requests, size) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "this limiter has no memory for more header lists", http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		defer pool.Give(c.requests, size)
		c.calls.Add(1)
		defer c.calls.Add(-1)
		if r.ProtoMajor > 1 && r.ContentLength != 0 {
			r.Body = uncountedBody{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
	return countingListener{listener, pool, calls}
}

// headerConn is the key of the *countedConn in the context of a request.
type headerConn struct{}

// headerMemory returns the estimated memory of the header list of a request, in bytes.
func headerMemory(r *http.Request) int {
	size := memoryOfRequest + len(r.RequestURI)
	for name, values := range r.Header {
		size += len(name)
		for _, value := range values {
			size += memoryOfField + len(value)
		}
	}
	return size
}

type countingListener struct {
	net.Listener

	pool  *overload.Pool
	calls *overload.Shares
}

// Accept implements net.Listener.
func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // it is that listener
	}
	return &countedConn{
		Conn: c, pool: l.pool, incomplete: l.pool.Share(), requests: l.pool.Share(), calls: l.calls.Share(), headers: true,
	}, nil
}

// countedConn counts what arrives before a handler has it: the incomplete header list of a request.
type countedConn struct {
	net.Conn

	pool *overload.Pool
	// A connection whose requests use their part can still read the next one, to reject it.
	incomplete, requests *overload.Share
	calls                *overload.Share // requests in progress

	mu      sync.Mutex
	headers bool // whether what arrives can be part of a header list
	closed  bool
	read    int // bytes of the header list
	taken   int // of pool
}

func countedOf(c net.Conn) *countedConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // of TLS
		c = t.NetConn()
	}
	return c.(*countedConn) //nolint:forcetypeassert // all connections of a countingListener are
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for began, more := time.Now(), n; !c.take(more); more = 0 {
		if time.Since(began) > roomTimeout {
			return 0, errNoRoom
		}
		time.Sleep(time.Millisecond)
	}
	return n, err //nolint:wrapcheck // it is that connection
}

// take counts n more bytes, and reports whether there is memory for all that are counted.
func (c *countedConn) take(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.headers || c.closed {
		return true
	}
	c.read += n
	more := max(0, c.read-freeHeaders)*memoryOfByte - c.taken
	if more <= 0 {
		return true
	}
	if !c.pool.Take(c.incomplete, more) {
		return false
	}
	c.taken += more
	return true
}

// readHeaders gives back what was counted, because a handler has it. The argument is whether what arrives next can be part of a header list.
func (c *countedConn) readHeaders(next bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers, c.read = next, 0
	if c.taken > 0 {
		c.pool.Give(c.incomplete, c.taken)
		c.taken = 0
	}
}

// awaitRequest counts again what arrives, after a request in HTTP/1.
func (c *countedConn) awaitRequest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = true
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.readHeaders(false)
	return c.Conn.Close() //nolint:wrapcheck // it is that connection
}

// CloseWrite is for net/http, which ends a connection with it after an error: the client must be able to read the response.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite() //nolint:wrapcheck // it is that connection
	}
	return nil
}

// uncountedBody is the body of a request in HTTP/2, whose parts arrive between header lists.
type uncountedBody struct {
	io.ReadCloser

	conn *countedConn
}

// Read implements io.Reader.
func (b uncountedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.conn.readHeaders(true)
	return n, err //nolint:wrapcheck // it is that body
}
