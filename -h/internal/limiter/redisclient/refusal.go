package redisclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// maxRefusal is enough for the reply of a server that refuses a connection.
const maxRefusal = 512

// refusal is the first reply on a connection. A server that refuses a connection, for example because it has too many, replies with an error and closes
// it, whatever the client sends. The client finds that its Write fails, or reads the error as the reply to a command of the handshake that may fail.
type refusal struct {
	more  atomic.Bool // there is another reply: the connection was not refused
	mu    sync.Mutex
	reply []byte // the first bytes
}

// isOpen reports whether the first reply is not known yet.
func (r *refusal) isOpen() bool { return !r.more.Load() }

// add records bytes that were read.
func (r *refusal) add(b []byte) {
	if len(b) == 0 || r.more.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reply = append(r.reply, b...); r.reply[0] != '-' || len(r.reply) > maxRefusal || bytes.Count(r.reply, []byte("\n")) > 1 {
		r.reply = nil
		r.more.Store(true)
	}
}

// explain returns err, the error of a connection, with the reason that the server gave, if it closed the connection before it answered anything else.
func (r *refusal) explain(err error) error {
	if r.more.Load() || !isBroken(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	line, _, complete := strings.Cut(string(r.reply), "\r\n")
	if !complete {
		const text = "the server closed the connection during the handshake: it may be no Redis, or a proxy that does not support HELLO"
		return wrappedError{&brokenError{text: text, cause: err}}
	}
	text := strings.TrimPrefix(line, "-")
	refused := &brokenError{text: "the server refused the connection: " + text, cause: err}
	if kind := kindOfReply(text); kind == KindClients || kind == KindDenied { // nothing ran
		return wrappedError{&kindError{error: refused, kind: kind}}
	}
	return wrappedError{refused}
}

// isBroken reports whether err is that of a connection that the server has closed.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// brokenError is the error of a connection with the reason why the server closed it.
type brokenError struct {
	text  string
	cause error
}

func (e *brokenError) Error() string { return fmt.Sprintf("%s (%v)", e.text, e.cause) }

func (e *brokenError) Unwrap() error { return e.cause }
