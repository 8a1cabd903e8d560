package h1

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
)

// response is an http.ResponseWriter. Its memory is used again for the next one of the connection.
type response struct {
	header http.Header
	status int
	body   []byte
	out    bytes.Buffer
}

// maxKept bounds the memory that a connection keeps for responses, in bytes.
const maxKept = 16 << 10

func (w *response) reset() {
	clear(w.header)
	w.status = 0
	w.body = w.body[:0]
	if cap(w.body) > maxKept {
		w.body = nil
	}
	w.out.Reset()
	if w.out.Cap() > maxKept {
		w.out = bytes.Buffer{}
	}
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK { // nothing is sent before the response
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.hasBody() {
		return 0, http.ErrBodyNotAllowed
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

func (w *response) hasBody() bool {
	return w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// closes reports whether the handler closes the connection.
func (w *response) closes() bool {
	for _, value := range w.header["Connection"] {
		if strings.EqualFold(value, "close") {
			return true
		}
	}
	return false
}

// finish returns the response as it is sent.
func (w *response) finish(date string, keep bool) []byte {
	w.WriteHeader(http.StatusOK)
	h, b := w.header, &w.out
	b.WriteString("HTTP/1.1 ")
	b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(w.status), 10))
	b.WriteByte(' ')
	b.WriteString(http.StatusText(w.status))
	b.WriteString("\r\n")
	delete(h, "Connection")
	delete(h, "Content-Length")
	delete(h, "Transfer-Encoding")
	if len(w.body) > 0 && h["Content-Type"] == nil {
		h["Content-Type"] = []string{http.DetectContentType(w.body)}
	}
	_ = h.Write(b) // it is in memory
	if h["Date"] == nil {
		b.WriteString("Date: ")
		b.WriteString(date)
		b.WriteString("\r\n")
	}
	if w.hasBody() {
		b.WriteString("Content-Length: ")
		b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(len(w.body)), 10))
		b.WriteString("\r\n")
	}
	if !keep {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	b.Write(w.body)
	return b.Bytes()
}
