package h1

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// A handler cannot change how the client finds the end of a response.
func TestFinish_WritesTheFramingItself(t *testing.T) {
	c := newConn(New(newRest(nil)), nil, nil)
	w := &c.response
	w.Header().Set("Content-Length", "7")
	w.Header().Set("Transfer-Encoding", "chunked")
	w.Header().Set("Connection", "keep-alive")
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Date", "today")
	if _, err := w.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	want := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: today\r\nContent-Length: 5\r\n\r\nhello"
	if got := string(w.finish("now", true)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReset_KeepsABoundedMemory(t *testing.T) {
	const kept = 16 << 10
	w := &newConn(New(newRest(nil)), nil, nil).response
	for _, size := range []int{kept, kept + 1} {
		w.body = bytes.Repeat([]byte("x"), size)[:size:size]
		w.out.Reset()
		w.out = *bytes.NewBuffer(make([]byte, 0, size))
		w.out.WriteString("x")
		w.reset()
		want := 0
		if size == kept {
			want = size
		}
		if len(w.body) > 0 || cap(w.body) != want || w.out.Len() > 0 || w.out.Cap() != want {
			t.Errorf("%d bytes: keeps %d and %d bytes, want %d", size, cap(w.body), w.out.Cap(), want)
		}
	}
}

func TestWriteHeader_IgnoresInformation(t *testing.T) {
	w := &newConn(New(newRest(nil)), nil, nil).response
	w.WriteHeader(http.StatusEarlyHints)
	w.WriteHeader(http.StatusOK)
	w.WriteHeader(http.StatusNotFound)
	if got := string(w.finish("now", true)); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("%q, want 200", got)
	}
}

func TestWrite_SetsTheStatus(t *testing.T) {
	w := &newConn(New(newRest(nil)), nil, nil).response
	if _, err := w.Write(nil); err != nil {
		t.Fatal(err)
	}
	w.WriteHeader(http.StatusNotFound)
	if got := string(w.finish("now", true)); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("%q, want 200", got)
	}
}
