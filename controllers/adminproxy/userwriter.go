package adminproxy

import (
	"net/http"
	"time"
)

const (
	// maxWrite is the number of bytes that a user must read within lineTimeout.
	maxWrite = 2 << 20
	// readerTimeout bounds the time in which all writes to a user wait: meanwhile a large answer is in memory, for which others wait.
	readerTimeout = time.Minute
)

// userWriter writes to a user who can be slow. Its writes wait for a bounded time in total.
type userWriter struct {
	to   http.ResponseWriter
	out  *http.ResponseController
	left time.Duration
}

// newUserWriter returns a writer. The user of a change must read sooner, so that a slow one does not delay the calls of other replicas.
func newUserWriter(to http.ResponseWriter, isChange bool) *userWriter {
	w := &userWriter{to, http.NewResponseController(to), readerTimeout}
	if isChange {
		w.left = lineTimeout
	}
	return w
}

// Write implements io.Writer.
func (w *userWriter) Write(text []byte) (n int, err error) {
	for len(text) > 0 && err == nil {
		part := text[:min(len(text), maxWrite)]
		began := time.Now()
		_ = w.out.SetWriteDeadline(began.Add(min(lineTimeout, w.left))) // fails for a writer without deadlines, as in a test
		var written int
		written, err = w.to.Write(part)
		w.left -= time.Since(began)
		n, text = n+written, text[written:]
	}
	return n, err //nolint:wrapcheck // an io.Writer
}
