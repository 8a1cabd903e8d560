package h1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// echo answers with what it has read of a request, in fields and in the body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("X-Read", fmt.Sprintf("%s %s %s %d.%d %q %v", r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Header["X-A"], err))
	w.Header()["x-As-Written"] = []string{"1", "2\r\n3"}
	switch r.URL.Path {
	case "/empty":
	case "/no-content":
		w.WriteHeader(http.StatusNoContent)
	case "/close":
		w.Header().Set("Connection", "close")
		fallthrough
	case "/typed":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		fallthrough
	case "/count":
		fmt.Fprint(w, len(body)) // net/http would send a long response in chunks
	default:
		fmt.Fprintf(w, "%q", body)
	}
}

// requests are sent one after the other on a connection.
func requests() map[string][]string {
	const get = "GET /typed HTTP/1.1\r\nHost: weir\r\nX-A: b\r\n\r\n"
	const post = "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\nhello"
	return map[string][]string{
		"GET":                           {get, get},
		"POST":                          {post, post, get},
		"a body and no type":            {"POST /a HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\n\r\n<p>a</p>\n"},
		"an empty response":             {"GET /empty HTTP/1.1\r\nHost: weir\r\n\r\n", get},
		"no content":                    {"GET /no-content HTTP/1.1\r\nHost: weir\r\n\r\n", get},
		"a newline after a body":        {post + "\r\n", get},
		"two newlines after a body":     {post + "\r\n\r\n", get},
		"LF after CR LF":                {"GET / HTTP/1.1\r\nHost: weir\r\n\n", get},
		"the handler closes":            {"GET /close HTTP/1.1\r\nHost: weir\r\n\r\n"},
		"the client closes":             {"GET / HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n"},
		"HEAD after GET":                {get, "HEAD / HTTP/1.1\r\nHost: weir\r\n\r\n", get},
		"chunks after GET":              {get, "POST / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", post},
		"HTTP/1.0":                      {"GET / HTTP/1.0\r\n\r\n"},
		"100-continue":                  {"POST / HTTP/1.1\r\nHost: weir\r\nExpect: nothing\r\nContent-Length: 5\r\n\r\nhello"},
		"lines that end in LF":          {"GET / HTTP/1.1\nHost: weir\nX-A: b\n\n", get},
		"a head of 12 KiB":              {"GET / HTTP/1.1\r\nHost: weir\r\nX-A: " + strings.Repeat("b", 12<<10) + "\r\n\r\n", get},
		"an invalid request":            {get, "GET / HTTP/1.1\r\nHost: weir\r\nno field\r\n\r\n"},
		"another encoding":              {"POST / HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: gzip\r\n\r\n"},
		"a body larger than the buffer": {"POST /count HTTP/1.1\r\nHost: weir\r\nContent-Length: 40000\r\n\r\n" + strings.Repeat("x", 40000), get},
	}
}

// answers returns the responses to requests that are sent in pieces of a size, or in one piece after the other if the size is 0.
func answers(t *testing.T, address string, requests []string, size int) string {
	t.Helper()
	c := dial(t, address)
	from := bufio.NewReader(c)
	var all strings.Builder
	var sending sync.WaitGroup
	defer sending.Wait()
	if size > 0 { // all requests, without waiting for a response
		sending.Go(func() {
			for text := strings.Join(requests, ""); text != ""; {
				n := min(size, len(text))
				_, _ = io.WriteString(c, text[:n]) // the server may have closed the connection
				text = text[n:]
			}
		})
	}
	for _, request := range requests {
		if size == 0 {
			send(t, c, request)
		}
		method, _, _ := strings.Cut(request, " ")
		response, err := http.ReadResponse(from, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := http.ParseTime(response.Header.Get("Date")); response.StatusCode < 400 && err != nil {
			t.Errorf("Date: %v", err)
		}
		response.Header.Del("Date")
		fmt.Fprintln(&all, response.Status, response.Proto, response.Header, response.ContentLength, response.Close, string(body))
		if response.Close {
			if rest, err := io.ReadAll(from); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%q and %v after the last response", rest, err)
			}
			break
		}
	}
	return all.String()
}

// Both servers send the same responses to the same bytes, however these arrive.
func TestServer_RespondsAsNetHTTP(t *testing.T) {
	alone := newRest(http.HandlerFunc(echo))
	want := serveOn(t, alone.Serve)
	t.Cleanup(func() { _ = alone.Close() })
	address := overTCP(t, newRest(http.HandlerFunc(echo)))
	for name, requests := range requests() {
		t.Run(name, func(t *testing.T) {
			expected := answers(t, want, requests, 0)
			sizes := []int{0, 1 << 20, 1, 7, 50}
			if len(requests[0]) > 10<<10 {
				sizes = []int{0, 1 << 20, 5000}
			}
			for _, size := range sizes {
				if got := answers(t, address, requests, size); got != expected {
					t.Errorf("pieces of %d bytes: %s\nnet/http responds %s", size, got, expected)
				}
			}
		})
	}
}

func TestSkipNewlines_SkipsTwo(t *testing.T) {
	for text, want := range map[string]struct {
		rest string
		most int
	}{
		"": {"", 4}, "\r": {"", 3}, "\r\n": {"", 2}, "\n\n": {"", 2}, "\r\n\r\n": {"", 0}, "\r\n\r\n\r\nGET": {"\r\nGET", 0}, "\r\nGET": {"GET", 0}, "GET": {"GET", 0},
	} {
		c := newConn(New(newRest(nil)), nil, nil)
		c.end, c.newlines = copy(c.in, text), len(endOfHead)
		c.skipNewlines()
		if rest := string(c.in[c.start:c.end]); rest != want.rest || c.newlines != want.most {
			t.Errorf("%q: %q remains, and %d characters can follow; want %q and %d", text, rest, c.newlines, want.rest, want.most)
		}
	}
}

func TestHasBareNewline(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a": false, "a\r\n": false, "a\r\nbc\r\nd\r": false, "\r\n\r\n": false,
		"\n": true, "a\n": true, "a\r\n\n": true, "a\r\nbc\r\nd\n": true,
	} {
		if got := hasBareNewline([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestServer_ReadsHeadsAcrossTheEndOfTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := pipe(t, newRest(http.HandlerFunc(echo)))
		defer stop()
		const requests = 3 * bufferSize / len(get)
		go write(t, c, strings.Repeat(get, requests))
		from := bufio.NewReader(c)
		for range requests {
			if response, body := receive(t, from); response.StatusCode != http.StatusOK || body != `""` {
				t.Fatalf("%s %s", response.Status, body)
			}
		}
	})
}

// zeroReads is a connection whose reads without room return immediately, as those of TCP do.
type zeroReads struct{ net.Conn }

func (c zeroReads) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.Conn.Read(p)
}

func TestServer_WaitsForTheNextRequestAfterAFullBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, accepted := net.Pipe()
		server := New(newRest(http.HandlerFunc(echo)))
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(fixture.PipeListener(zeroReads{accepted})) }()
		from := bufio.NewReader(c)
		full := "GET / HTTP/1.1\r\nHost: weir\r\nX-B: "
		full += strings.Repeat("b", bufferSize-len(full)-len(endOfHead)) + endOfHead
		for _, request := range []string{full, get} {
			send(t, c, request)
			receive(t, from)
			time.Sleep(idleTimeout - time.Second)
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
	})
}

func TestServer_LeavesTheConnectionToNetHTTPWithTheFirstUnusualRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counted
		c, _, stop := pipe(t, newRest(n.count(echo)))
		defer stop()
		from := bufio.NewReader(c)
		for i, want := range []counted{{1, 0}, {2, 0}, {2, 1}, {2, 2}} {
			request := "GET / HTTP/1.1\r\nHost: weir\r\n\r\n"
			if i == 2 {
				request = "GET / HTTP/1.1\nHost: weir\n\n"
			}
			send(t, c, request)
			receive(t, from)
			if n != want {
				t.Errorf("after %d requests: %+v, want %+v", i+1, n, want)
			}
		}
	})
}

func TestServer_ServesHTTP2(t *testing.T) {
	var n counted
	address := overTCP(t, newRest(n.count(echo)))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Get("http://" + address + "/typed")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusTooManyRequests || n != (counted{0, 1}) {
		t.Errorf("%s %s, %+v", response.Proto, response.Status, n)
	}
}

// A caller that stalls does not hold its connection, whatever it does not do.
func TestServer_ClosesTheConnectionsOfClientsThatStall(t *testing.T) {
	const get = "GET /empty HTTP/1.1\r\nHost: weir\r\n\r\n"
	for name, test := range map[string]struct {
		requests []string
		after    time.Duration
		reads    string // what the handler reads of the last one
	}{
		"nothing":                      {nil, headerTimeout, ""},
		"half of a head":               {[]string{"GET / HTTP/1.1\r\nHos"}, headerTimeout, ""},
		"half of a head after another": {[]string{get, "GET / HTTP/1.1\r\nHos"}, headerTimeout, ""},
		"half of a body":               {[]string{"POST /empty HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\n\r\n{"}, readTimeout, "i/o timeout"},
		"half of a body after another": {[]string{get, "POST /empty HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\n\r\n{"}, readTimeout, "i/o timeout"},
		"no other request":             {[]string{get}, idleTimeout, "nil"},
		"a newline after a body":       {[]string{"POST /empty HTTP/1.1\r\nHost: weir\r\nContent-Length: 1\r\n\r\nx\r\n"}, idleTimeout, "nil"},
		"no third request":             {[]string{get, get}, idleTimeout, "nil"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, stop := pipe(t, newRest(http.HandlerFunc(echo)))
				defer stop()
				from := bufio.NewReader(c)
				began := time.Now()
				for i, request := range test.requests {
					if i > 0 {
						time.Sleep(700 * time.Millisecond)
					}
					began = time.Now()
					send(t, c, request)
					if i < len(test.requests)-1 {
						receive(t, from)
					}
				}
				rest, err := io.ReadAll(from)
				if took := time.Since(began); took < test.after || took > test.after+slack {
					t.Errorf("closed after %v, want %v", took, test.after)
				}
				if err != nil || (test.reads == "") != (len(rest) == 0) || !strings.Contains(string(rest), test.reads) {
					t.Errorf("%q, %v; want %q", rest, err, test.reads)
				}
			})
		})
	}
}

// The deadline of a request is not that of the first byte, nor that of the one before.
func TestServer_ServesClientsThatAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counted
		c, _, stop := pipe(t, newRest(n.count(echo)))
		defer stop()
		from := bufio.NewReader(c)
		for range 3 {
			for _, piece := range []string{"POST / HTTP/1.1\r\nHost", ": weir\r\nContent-Length: 5\r\n\r\n", "he", "llo"} {
				send(t, c, piece)
				time.Sleep(3 * time.Second) // less than each timeout, and more than one together
			}
			if response, body := receive(t, from); response.StatusCode != http.StatusOK || body != `"hello"` {
				t.Errorf("%s %s", response.Status, body)
			}
			time.Sleep(idleTimeout - time.Second)
		}
		if n != (counted{3, 0}) {
			t.Errorf("%+v", n)
		}
	})
}

// Each byte of a head does not begin its time again.
func TestServer_ClosesTheConnectionsOfClientsThatTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := pipe(t, newRest(http.HandlerFunc(echo)))
		defer stop()
		send(t, c, "GET / HTTP/1.1\r\nX-A: ")
		began := time.Now()
		for {
			if _, err := io.WriteString(c, "b"); err != nil || time.Since(began) > 10*headerTimeout {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took < headerTimeout || took > headerTimeout+slack {
			t.Errorf("closed after %v, want %v", took, headerTimeout)
		}
	})
}

func TestServer_ClosesTheConnectionsOfClientsThatReadNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server, stop := pipe(t, newRest(http.HandlerFunc(echo)))
		defer stop()
		send(t, c, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
		began := time.Now()
		server.running.Wait()
		if took := time.Since(began); took < writeTimeout || took > writeTimeout+slack {
			t.Errorf("closed after %v, want %v", took, writeTimeout)
		}
	})
}

// A handler need not read the body: then the next request begins after it.
func TestServer_SkipsABodyThatTheHandlerDoesNotRead(t *testing.T) {
	for name, body := range map[string]string{"small": "hello", "larger than the buffer": strings.Repeat("x", 3*bufferSize)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, stop := pipe(t, newRest(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })))
				defer stop()
				from := bufio.NewReader(c)
				for range 2 {
					send(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
					if response, _ := receive(t, from); response.StatusCode != http.StatusAccepted || response.Close {
						t.Errorf("%s, closes: %v", response.Status, response.Close)
					}
				}
			})
		})
	}
}

func TestServer_ClosesTheConnectionIfABodyEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan error, 1)
		c, server, stop := pipe(t, newRest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			if _, again := r.Body.Read(make([]byte, 1)); !errors.Is(again, err) {
				t.Errorf("%v, then %v", err, again)
			}
			read <- err
		})))
		defer stop()
		send(t, c, "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\n\r\n{")
		_ = c.Close()
		if err := <-read; !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		server.running.Wait()
	})
}

// The memory of a request and a response is used again, whatever a handler does with it.
func TestServer_ForgetsARequestAfterItsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := strings.Repeat("x", 2*maxKept)
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-First") != "" {
				_ = r.ParseForm()
				r.Header.Set("X-Mine", "a")
				r.URL.Path = "/changed"
				w.Header().Set("X-Theirs", "b")
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, large)
				return
			}
			fmt.Fprintln(w, len(r.Form), len(r.Header), r.URL, r.ContentLength, r.Close, r.Host, r.Body == http.NoBody)
		})))
		defer stop()
		from := bufio.NewReader(c)
		send(t, c, "POST /a?b=c HTTP/1.1\r\nHost: one\r\nX-First: 1\r\nContent-Length: 1\r\n\r\nx")
		if response, body := receive(t, from); response.StatusCode != http.StatusTeapot || body != large {
			t.Errorf("%s, %d bytes", response.Status, len(body))
		}
		send(t, c, "GET /a?b=c HTTP/1.1\r\nHost: two\r\n\r\n")
		response, body := receive(t, from)
		if want := "0 0 /a?b=c 0 false two true\n"; body != want || response.Header.Get("X-Theirs") != "" || response.StatusCode != http.StatusOK {
			t.Errorf("%s %v %s, want %s", response.Status, response.Header, body, want)
		}
	})
}

func TestServer_ClosesTheConnectionIfAHandlerPanics(t *testing.T) {
	for reason, logged := range map[any]string{"a reason": "http: panic serving pipe: a reason", http.ErrAbortHandler: ""} {
		synctest.Test(t, func(t *testing.T) {
			rest := newRest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				r.Context().Done()
				panic(reason)
			}))
			var lines bytes.Buffer
			rest.ErrorLog = log.New(&lines, "", 0)
			c, server, stop := pipe(t, rest)
			defer stop()
			send(t, c, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
			if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
				t.Errorf("%q, %v; want no response", got, err)
			}
			server.running.Wait()
			if got := lines.String(); !strings.HasPrefix(got, logged) || (logged == "") != (got == "") {
				t.Errorf("the log has %q, want %q", got, logged)
			}
		})
	}
}

func TestServer_LogsPanicsToTheStandardLoggerIfItHasNone(t *testing.T) {
	var lines bytes.Buffer
	defer log.SetOutput(log.Writer())
	log.SetOutput(&lines)
	synctest.Test(t, func(t *testing.T) {
		rest := newRest(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a reason") }))
		rest.ErrorLog = nil
		c, server, stop := pipe(t, rest)
		defer stop()
		send(t, c, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
		server.running.Wait()
		if got := lines.String(); !strings.Contains(got, "http: panic serving pipe: a reason") {
			t.Errorf("the log has %q", got)
		}
	})
}

// counting counts the deadlines that are set.
type counting struct {
	net.Conn

	reads, writes int
}

func (c *counting) SetReadDeadline(by time.Time) error {
	c.reads++
	return c.Conn.SetReadDeadline(by)
}

func (c *counting) SetWriteDeadline(by time.Time) error {
	c.writes++
	return c.Conn.SetWriteDeadline(by)
}

// A deadline costs more than the rest of a request.
func TestServer_SetsDeadlinesOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, accepted := net.Pipe()
		served := &counting{Conn: accepted}
		server := New(newRest(http.HandlerFunc(echo)))
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(fixture.PipeListener(served)) }()
		from := bufio.NewReader(c)
		for i, want := range []int{1, 1, 1, 2, 2} {
			send(t, c, get)
			receive(t, from)
			synctest.Wait() // it waits for the next request, for longer than for the first one
			if served.reads != want+1 || served.writes != want {
				t.Errorf("after %d requests: %d deadlines of reads and %d of writes, want %d and %d", i+1, served.reads, served.writes, want+1, want)
			}
			time.Sleep(400 * time.Millisecond)
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
	})
}

// A context is done when the client closes the connection, but the server looks for that only if the handler asks.
func TestContext_IsDoneWhenTheClientClosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		c, server, stop := pipe(t, newRest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			if err := ctx.Err(); err != nil {
				t.Errorf("before: %v", err)
			}
			<-ctx.Done()
			ended <- ctx.Err()
		})))
		defer stop()
		send(t, c, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
		time.Sleep(3 * idleTimeout) // no deadline ends the wait
		select {
		case err := <-ended:
			t.Fatalf("the context ended with %v before the client closed the connection", err)
		default:
		}
		_ = c.Close()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "canceled") {
			t.Error(err)
		}
		server.running.Wait()
	})
}

// What the client sends while a handler watches the connection is the next request.
func TestContext_LosesNothingThatTheClientSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var wait sync.WaitGroup
			for range 3 {
				wait.Go(func() {
					select {
					case <-r.Context().Done():
						t.Error("the context is done")
					case <-time.After(time.Second):
					}
				})
			}
			wait.Wait()
			echo(w, r)
		})))
		defer stop()
		go func() {
			for _, n := range []int{1, 2, 1} { // requests in the buffer, and on the way
				write(t, c, strings.Repeat("POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\nhello", n))
			}
		}()
		from := bufio.NewReader(c)
		for range 4 {
			response, body := receive(t, from)
			if read := response.Header.Get("X-Read"); response.StatusCode != http.StatusOK || body != `"hello"` || !strings.HasPrefix(read, "POST / ") {
				t.Errorf("%s %s, of the request %s", response.Status, body, read)
			}
		}
	})
}

func TestContext_IsDoneAfterTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan (<-chan struct{}), 1)
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { done <- r.Context().Done() })))
		defer stop()
		send(t, c, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n")
		receive(t, bufio.NewReader(c))
		began := time.Now()
		<-<-done
		if took := time.Since(began); took > 0 {
			t.Errorf("is done after %v", took)
		}
	})
}

// A handler that has not read the body yet can still read it after it has asked for the context.
func TestContext_LeavesTheBodyToTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Context().Done()
			time.Sleep(time.Millisecond) // a watch would be the first to read
			echo(w, r)
		})))
		defer stop()
		go func() {
			write(t, c, "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\nhe")
			time.Sleep(time.Second)
			write(t, c, "llo")
		}()
		if _, body := receive(t, bufio.NewReader(c)); body != `"hello"` {
			t.Error(body)
		}
	})
}

func TestContext_IsDoneAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan (<-chan struct{}), 1)
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			done <- r.Context().Done()
			panic(http.ErrAbortHandler)
		})))
		defer stop()
		send(t, c, "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\nhe") // nothing reads the connection meanwhile
		<-<-done
	})
}

// A client that has sent as much as the buffer holds is not watched, and loses nothing.
func TestContext_LeavesAFullBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Context().Done()
			echo(w, r)
		})))
		defer stop()
		from := bufio.NewReader(c)
		send(t, c, get)
		receive(t, from)
		last := "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 4000\r\n\r\n" + strings.Repeat("x", 4000)
		first := "GET / HTTP/1.1\r\nHost: weir\r\nX-B: "
		first += strings.Repeat("b", bufferSize-len(first)-len(endOfHead)-len(last)) + endOfHead
		go write(t, c, first+last)
		for _, want := range []int{2, 4002} {
			if _, body := receive(t, from); len(body) != want {
				t.Errorf("%d bytes, want %d", len(body), want)
			}
		}
		time.Sleep(idleTimeout - time.Second)
		send(t, c, get)
		receive(t, from)
	})
}

// A client can end its direction of the connection after a request. Then its context is done, and it still receives the response.
func TestServer_RespondsToClientsThatSendNoMore(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		echo(w, r)
	})
	alone := newRest(handler)
	want := serveOn(t, alone.Serve)
	t.Cleanup(func() { _ = alone.Close() })
	for name, address := range map[string]string{"net/http": want, "this server": overTCP(t, newRest(handler))} {
		c := dial(t, address)
		send(t, c, get)
		closeWrite(t, c)
		from := bufio.NewReader(c)
		response, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK || string(body) != `""` || err != nil {
			t.Errorf("%s: %s %s, %v", name, response.Status, body, err)
		}
		if rest, err := io.ReadAll(from); len(rest) > 0 || err != nil {
			t.Errorf("%s: %q, %v; want the end", name, rest, err)
		}
		_ = response.Body.Close()
	}
}

func TestContext_KeepsTheConnectionIfTheHandlerReadsAPartOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, 2))
			r.Context().Done()
		})))
		defer stop()
		from := bufio.NewReader(c)
		for range 2 {
			go func() {
				for _, piece := range []string{"POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\nh", "e", "llo"} {
					write(t, c, piece)
					time.Sleep(time.Second)
				}
			}()
			if response, _ := receive(t, from); response.StatusCode != http.StatusOK || response.Close {
				t.Errorf("%s, closes: %v", response.Status, response.Close)
			}
			time.Sleep(time.Second)
		}
	})
}

// The bytes of a slow client do not prolong the time of its first head.
func TestServer_BoundsTheTimeOfTheFirstHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := pipe(t, newRest(http.HandlerFunc(echo)))
		defer stop()
		began := time.Now()
		for _, piece := range []string{"GET / HT", "TP/1.1\r\nHost"} {
			time.Sleep(headerTimeout/2 - time.Millisecond)
			send(t, c, piece)
		}
		if got, err := io.ReadAll(c); len(got) > 0 || err != nil || time.Since(began) != headerTimeout {
			t.Errorf("%q, %v after %v; want the end after %v", got, err, time.Since(began), headerTimeout)
		}
	})
}

// A head that ends early is an error that net/http reports.
func TestServer_RespondsToIncompleteHeadsAsNetHTTP(t *testing.T) {
	alone := newRest(http.HandlerFunc(echo))
	want := serveOn(t, alone.Serve)
	t.Cleanup(func() { _ = alone.Close() })
	address := overTCP(t, newRest(http.HandlerFunc(echo)))
	for _, text := range []string{"GET / HTTP/1.1\r\nHos", "GARBAGE\r\n", "BREW / HTTP/1.1\r\nA: b\r\n", get + "GET", ""} {
		var got [2]string
		for i, address := range []string{want, address} {
			c := dial(t, address)
			send(t, c, text)
			closeWrite(t, c)
			response, err := io.ReadAll(c)
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			for line := range strings.Lines(string(response)) {
				if strings.HasPrefix(line, "HTTP/1.1 ") {
					got[i] += line
				}
			}
		}
		if got[0] != got[1] {
			t.Errorf("%q: %q, net/http responds %q", text, got[1], got[0])
		}
	}
}

// net/http closes the connection in a way that lets the client read the error.
func TestServer_LetsClientsReadTheErrorsOfNetHTTP(t *testing.T) {
	c := dial(t, overTCP(t, newRest(http.HandlerFunc(echo))))
	go func() { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: weir\r\nX-A: "+strings.Repeat("x", 60<<10)) }() // the server does not read all
	if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 431 ") {
		t.Errorf("%q, %v", got, err)
	}
}

// Each request has a context of its own, which is done after it. A goroutine that asks for it later takes nothing of the next request.
func TestContext_BelongsToOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contexts := make(chan context.Context, 2)
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			contexts <- r.Context()
			time.Sleep(time.Second)
			echo(w, r)
		})))
		defer stop()
		from := bufio.NewReader(c)
		send(t, c, get)
		receive(t, from)
		first := <-contexts
		send(t, c, "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\n")
		second := <-contexts
		select {
		case <-first.Done():
		default:
			t.Error("the context of the first request is not done")
		}
		if first == second || first.Err() == nil || second.Err() != nil {
			t.Errorf("the errors of the contexts are %v and %v, want canceled and none", first.Err(), second.Err())
		}
		send(t, c, "hello")
		if _, body := receive(t, from); body != `"hello"` {
			t.Error(body)
		}
	})
}

// Contexts that a handler derives end with the request, and while its body arrives.
func TestContext_CanBeDerived(t *testing.T) {
	address := overTCP(t, newRest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		go func() { <-ctx.Done() }()
		if r.URL.Path == "/later" {
			time.AfterFunc(time.Millisecond, cancel)
		} else {
			defer cancel()
		}
		go r.Context().Done()
		echo(w, r)
	})))
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c := dial(t, address)
			from := bufio.NewReader(c)
			for _, piece := range strings.SplitAfter(strings.Repeat("GET /later HTTP/1.1\r\nHo|st: weir\r\n\r\nPOST /a HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\nhe|llo", 30), "|") {
				write(t, c, strings.TrimSuffix(piece, "|"))
			}
			for range 60 {
				response, err := http.ReadResponse(from, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		})
	}
	clients.Wait()
}

func TestContext_IsDoneAfterTheHandlerHasWaitedForTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, 1)
		c, server, stop := pipe(t, newRest(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			<-r.Context().Done()
			ended <- string(body)
		})))
		defer stop()
		for _, piece := range []string{"POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\n", "hel", "lo"} {
			send(t, c, piece)
			synctest.Wait()
		}
		_ = c.Close()
		if body := <-ended; body != "hello" {
			t.Error(body)
		}
		server.running.Wait()
	})
}

// There is no room for the byte that a watch would read.
func TestContext_LosesNothingIfTheBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := pipe(t, newRest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				t.Error("the context is done")
			case <-time.After(time.Second):
			}
			body, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, len(body))
		})))
		defer stop()
		text := get + fmt.Sprintf("POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n", bufferSize) + strings.Repeat("x", bufferSize)
		go func() {
			write(t, c, text[:bufferSize])
			write(t, c, text[bufferSize:])
		}()
		from := bufio.NewReader(c)
		for _, want := range []string{"0", strconv.Itoa(bufferSize)} {
			if _, body := receive(t, from); body != want {
				t.Errorf("a body of %s bytes, want %s", body, want)
			}
		}
	})
}
