package socket

import (
	"io"
	"net/http"
	"time"
)

// unreadTimeout bounds how long a connection that ends waits for the rest of a body. The client needs that time to read the response: a
// connection that is closed while data arrives is reset.
const unreadTimeout = time.Second

// unread is the response to a request with a body over HTTP/1. net/http reads the rest of a body before it sends the response, so a response
// would wait for a client that announces a body and does not send it. Unread sends it immediately and ends the connection: the bytes
// that follow can belong to the body or to another request, and nothing shows which.
type unread struct {
	http.ResponseWriter

	body    io.ReadCloser
	ended   bool // the body was read to its end
	started bool // the header of the response was sent
}

// WithoutWaitingForBodies returns next as a handler whose responses do not wait for a body that it has not read. NewHTTP uses it.
func WithoutWaitingForBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 || r.ProtoMajor != 1 { // HTTP/2 ends a stream without its body
			next.ServeHTTP(w, r)
			return
		}
		u := &unread{ResponseWriter: w, body: r.Body}
		r.Body = u
		defer func() { r.Body = u.body }() // net/http looks at its own body after the handler
		next.ServeHTTP(u, r)
		u.start()
	})
}

// Read implements io.Reader.
func (u *unread) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	u.ended = u.ended || err == io.EOF
	return n, err //nolint:wrapcheck // it is that body
}

// Close implements io.Closer. It reads nothing: net/http closes the body after the response.
func (*unread) Close() error { return nil }

// start is called before the header of the response is sent.
func (u *unread) start() {
	if u.started {
		return
	}
	u.started = true
	if !u.ended {
		u.Header().Set("Connection", "close")
		_ = http.NewResponseController(u.ResponseWriter).SetReadDeadline(time.Now().Add(unreadTimeout)) // otherwise ReadTimeout is the bound
	}
}

// WriteHeader implements http.ResponseWriter.
func (u *unread) WriteHeader(status int) {
	u.start()
	u.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (u *unread) Write(p []byte) (int, error) {
	u.start()
	return u.ResponseWriter.Write(p) //nolint:wrapcheck // it is that response
}

// Unwrap is for http.ResponseController.
func (u *unread) Unwrap() http.ResponseWriter { return u.ResponseWriter }
