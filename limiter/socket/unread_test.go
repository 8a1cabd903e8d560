package socket

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// announcedBodies are the heads of requests whose body does not follow, or not completely.
var announcedBodies = map[string]string{
	"a length":                 "GET / HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\n\r\n",
	"a length and a part":      "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\n\r\n{",
	"a large length":           "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 9999999999\r\n\r\n{",
	"chunks":                   "GET / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n",
	"chunks without the last":  "POST / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
	"a question for 100":       "PUT / HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
	"a question, with chunks":  "PUT / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
	"a length, over HTTP/1.0":  "GET / HTTP/1.0\r\nHost: weir\r\nContent-Length: 9\r\n\r\n",
	"a length and keep-alive":  "GET / HTTP/1.0\r\nHost: weir\r\nConnection: keep-alive\r\nContent-Length: 9\r\n\r\n",
	"a length, then a request": "GET / HTTP/1.1\r\nHost: weir\r\nContent-Length: 99\r\n\r\nGET / HTTP/1.1\r\nHost: weir\r\n\r\n",
}

// answers are what handlers do that read no body, or not all of it.
var answers = map[string]http.HandlerFunc{
	"nothing":    func(http.ResponseWriter, *http.Request) {},
	"a status":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
	"a body":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") },
	"a long one": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("answer", 1000)) },
	"after closing the body": func(w http.ResponseWriter, r *http.Request) {
		_ = r.Body.Close()
		w.WriteHeader(http.StatusOK)
	},
}

// A client that announces a body, and does not send it, gets its response, and no second one for bytes that can belong to the body.
func TestNewHTTP_RespondsWithoutABodyThatTheHandlerDoesNotRead(t *testing.T) {
	for name, request := range announcedBodies {
		for what, handler := range answers {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := connect(t, handler, serving)
					began := time.Now()
					go func() { _, _ = io.WriteString(c, request) }() // a pipe has no buffer
					from := bufio.NewReader(c)
					response, err := http.ReadResponse(from, nil)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(response.Body)
					if err != nil {
						t.Error(err)
					}
					if response.StatusCode != http.StatusOK || !response.Close || time.Since(began) > 0 && response.ContentLength >= 0 {
						t.Errorf("%s with %d bytes after %v, closes: %v", response.Status, len(body), time.Since(began), response.Close)
					}
					if rest, err := io.ReadAll(from); len(rest) > 0 || err != nil {
						t.Errorf("%q and %v follow the response, want the end", rest, err)
					}
					if took := time.Since(began); took > 2*time.Second {
						t.Errorf("the connection ended after %v, want 2 s at most", took)
					}
				})
			})
		}
	}
}

// A body that trickles does not hold the connection.
func TestNewHTTP_EndsTheConnectionWhileABodyArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, answers["a status"], serving)
		send(t, c, "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 999\r\n\r\n")
		read(t, c)
		began := time.Now()
		var err error
		for err == nil && time.Since(began) < time.Minute {
			_, err = io.WriteString(c, "x")
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the connection ended after %v, want 3 s at most", took)
		}
	})
}

func TestNewHTTP_KeepsTheConnectionAfterABodyThatTheHandlerReads(t *testing.T) {
	for name, request := range map[string]string{
		"a length": "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 1\r\n\r\n{",
		"chunks":   "POST / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n",
		"no body":  "GET / HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, func(w http.ResponseWriter, r *http.Request) {
					if body, err := io.ReadAll(r.Body); err != nil || len(body) > 1 {
						w.WriteHeader(http.StatusBadRequest)
					}
				}, serving)
				for range 2 {
					send(t, c, request)
					if response := read(t, c); response.Close || response.StatusCode != http.StatusOK {
						t.Errorf("%s, closes: %v", response.Status, response.Close)
					}
					time.Sleep(30 * time.Second) // no deadline of the request before remains
				}
			})
		})
	}
}

// A stream of HTTP/2 ends without its body, and the connection serves others.
func TestNewHTTP_RespondsOverHTTP2WithoutTheBody(t *testing.T) {
	for what, handler := range answers {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := NewHTTP(handler, serving, slog.New(slog.DiscardHandler))
				server.Protocols.SetUnencryptedHTTP2(true)
				listener := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
				ended := make(chan error, 1)
				go func() { ended <- server.Serve(listener) }()
				dials := 0
				transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) {
					dials++
					client, accepted := net.Pipe()
					listener.accept <- accepted
					return client, nil
				}}
				transport.Protocols.SetUnencryptedHTTP2(true)
				began := time.Now()
				for range 3 {
					body, _ := io.Pipe() // never sends anything
					request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://weir/", body)
					if err != nil {
						t.Fatal(err)
					}
					response, err := transport.RoundTrip(request)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, response.Body); err != nil || response.ProtoMajor != 2 {
						t.Errorf("%s, %v", response.Proto, err)
					}
					_ = response.Body.Close()
					_ = body.Close()
					synctest.Wait() // the transport has the connection again
				}
				if took := time.Since(began); took > 0 || dials != 1 {
					t.Errorf("three responses took %v and %d connections", took, dials)
				}
				transport.CloseIdleConnections()
				if err := StopHTTP(server); err != nil {
					t.Error(err)
				}
				if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}
