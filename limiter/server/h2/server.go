package h2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter/overload"
)

// Method is a unary method that a Server serves itself. A Server calls Fail instead of Serve for a call whose message it cannot read.
type Method struct {
	// Announce is called when a call has arrived, before its message is read, by the goroutine that reads the connection. It returns
	// the context of the call, and whether the call is admitted. Nil admits all calls.
	Announce func(ctx context.Context) (context.Context, bool)
	// Rejected is the status of a call that is not admitted.
	Rejected *status.Status
	// Serve appends the response to a message to out, in wire format, or returns an error with the status of the call. It must not keep
	// message or out.
	Serve func(ctx context.Context, message, out []byte) ([]byte, error)
	// Fail ends a call whose message cannot be read because of err. Nil does nothing.
	Fail func(ctx context.Context, err error)
	// MaxMessage is in bytes. 0 means that of the Server.
	MaxMessage int
	// Inline makes the goroutine that reads the connection serve the call, so that calls take no memory while they wait for a processor. Serve
	// must not wait.
	Inline bool
}

// Options configure a Server. All durations and bounds are required.
type Options struct {
	// Methods are the unary methods by their full name, for example /package.Service/Method.
	Methods map[string]Method
	// Connect returns the context of the calls of a new connection. Nil changes nothing.
	Connect func(context.Context) context.Context
	// Metadata are the names of the header fields that the context of a call has as metadata, in lower case.
	Metadata []string
	// Credentials of the server. Nil disables TLS.
	Credentials credentials.TransportCredentials
	// MaxMessage is in bytes.
	MaxMessage int
	// MaxHeaders is the size of a header list, in bytes.
	MaxHeaders int
	// MaxStreams bounds the streams of a connection that are open at a time.
	MaxStreams int
	// Buffers bounds what all connections hold for calls that are not complete, in bytes: their streams, their messages, and responses for which
	// the client has no window.
	Buffers int
	// ConnectionTimeout bounds the handshakes of TLS and HTTP/2.
	ConnectionTimeout time.Duration
	// WriteTimeout bounds the time in which a client must read something if there is something to read.
	WriteTimeout time.Duration
	// The server sends a ping after KeepaliveAfter without a frame of the client. It closes the connection if it receives no frame within
	// KeepaliveTimeout.
	KeepaliveAfter, KeepaliveTimeout time.Duration
	// MinPing is the minimum interval between two pings of a client.
	MinPing time.Duration
	// The server closes a connection gracefully at the age of MaxAge ± 10 %, and ends its calls MaxAgeGrace later.
	MaxAge, MaxAgeGrace time.Duration
}

// Server serves calls on connections.
type Server struct {
	options Options
	methods map[string]*method
	workers workers
	buffers *overload.Pool
	running sync.WaitGroup // the goroutines of connections
	open    atomic.Int64   // connections

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	stopping bool
}

// method is a Method with its response to a call that is not admitted.
type method struct {
	Method

	rejected []byte // a header block
}

// New returns a Server. Serve starts it.
func New(o Options) *Server {
	s := &Server{options: o, methods: map[string]*method{}, buffers: overload.NewPool(int64(o.Buffers)), conns: map[*conn]struct{}{}}
	for name, m := range o.Methods {
		if m.MaxMessage == 0 {
			m.MaxMessage = o.MaxMessage
		}
		s.methods[name] = &method{m, trailersOnly(m.Rejected)}
	}
	return s
}

// ErrStopped is the error of a Server that was stopped.
var ErrStopped = errors.New("the server was stopped")

// Serve serves the connections of listener, which it closes, until Shutdown or Close. The error is then ErrStopped.
func (s *Server) Serve(listener net.Listener) error {
	defer func() { _ = listener.Close() }() // it is closed already after Shutdown
	s.mu.Lock()
	s.listener = listener
	stopping := s.stopping
	s.mu.Unlock()
	if stopping {
		return ErrStopped
	}
	for {
		accepted, err := s.accept(listener)
		if err != nil {
			return err
		}
		c := newConn(s, accepted)
		if !s.add(c) {
			_ = accepted.Close()
			return ErrStopped
		}
		go func() {
			defer s.running.Done()
			c.run()
		}()
	}
}

// The pauses after temporary errors of a listener, for example when there are too many open files.
const minAcceptPause, maxAcceptPause = 5 * time.Millisecond, time.Second

// accept returns the next connection.
func (s *Server) accept(listener net.Listener) (net.Conn, error) {
	for pause := minAcceptPause; ; pause = min(2*pause, maxAcceptPause) {
		accepted, err := listener.Accept()
		if err == nil {
			return accepted, nil
		}
		if s.isStopping() {
			return nil, ErrStopped
		}
		if temporary, ok := errors.AsType[net.Error](err); !ok || !temporary.Temporary() { //nolint:staticcheck // nothing else reports this
			return nil, fmt.Errorf("accept a connection: %w", err)
		}
		time.Sleep(pause)
	}
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// add adds a connection. It reports whether the server still runs.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.conns[c] = struct{}{}
	s.open.Add(1)
	s.running.Add(1)
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.open.Add(-1)
}

// stop accepts no more connections, and returns those that are open.
func (s *Server) stop() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	if s.listener != nil {
		_ = s.listener.Close() // Serve returns
	}
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	return open
}

// Shutdown accepts no more connections and calls, and waits for the calls in progress. If ctx is done before they end, it cancels them,
// closes their connections, waits for their handlers, and returns the cause.
func (s *Server) Shutdown(ctx context.Context) error {
	var drains sync.WaitGroup
	for _, c := range s.stop() {
		drains.Go(c.drain) // which writes
	}
	defer drains.Wait()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	defer s.workers.stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		for _, c := range s.stop() {
			c.abort()
		}
		<-ended
		return context.Cause(ctx)
	}
}
