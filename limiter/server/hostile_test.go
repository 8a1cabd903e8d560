package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/test/fixture/connection"
)

const allowedCall = "GET /v1/auth/shop HTTP/1.1\r\nHost: weir\r\nX-Forwarded-Uri: /\r\nX-Forwarded-Method: GET\r\nX-Tenant-Id: acme\r\n"

// receive reads a response and its body.
func receive(t *testing.T, from *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response, string(body)
}

// docs/reference/http.md documents that the body of a call to forward-auth is not read. A proxy can forward the Content-Length of the client
// without its body.
func TestServer_RespondsImmediatelyWithoutABodyThatItDoesNotNeed(t *testing.T) {
	for name, test := range map[string]struct {
		head string
		want int
	}{
		"forward-auth, allowed": {allowedCall, http.StatusOK},
		"forward-auth, denied":  {strings.Replace(allowedCall, "acme", "spent", 1), http.StatusTooManyRequests},
		"forward-auth, invalid": {"GET /v1/auth/shop HTTP/1.1\r\nHost: weir\r\n", http.StatusBadRequest},
		"another path":          {"POST /v2 HTTP/1.1\r\nHost: weir\r\n", http.StatusNotFound},
		"another method":        {"PUT /v1/check HTTP/1.1\r\nHost: weir\r\n", http.StatusMethodNotAllowed},
	} {
		for _, body := range []string{
			"Content-Length: 10\r\n\r\n", "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n",
		} {
			synctest.Test(t, func(t *testing.T) {
				caller, stop := servePipe(t)
				defer stop()
				from := bufio.NewReader(caller)
				for range 5 { // the limit
					if _, err := io.WriteString(caller, strings.Replace(allowedCall, "acme", "spent", 1)+"\r\n"); err != nil {
						t.Fatal(err)
					}
					receive(t, from)
				}
				began := time.Now()
				if _, err := io.WriteString(caller, test.head+body); err != nil {
					t.Fatal(err)
				}
				response, _ := receive(t, from)
				if took := time.Since(began); response.StatusCode != test.want || took > 0 || !response.Close {
					t.Errorf("%s, %q: %s after %v, closes: %v; want %d immediately", name, body, response.Status, took, response.Close, test.want)
				}
			})
		}
	}
}

func TestServer_RespondsToAnAnnouncedBodyThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, stop := servePipe(t)
		defer stop()
		began := time.Now()
		if _, err := fmt.Fprintf(caller, "POST /v1/check HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n", maxBody+1); err != nil {
			t.Fatal(err)
		}
		response, body := receive(t, bufio.NewReader(caller))
		if time.Since(began) > 0 || response.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, `"defects":["size"]`) {
			t.Errorf("%s %s after %v", response.Status, body, time.Since(began))
		}
	})
}

// The responses to requests that arrive together are those to single ones, in their order.
func TestServer_AnswersPipelinedRequestsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, stop := servePipe(t)
		defer stop()
		check := fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n%s", len(acme), acme)
		go func() {
			_, _ = io.WriteString(caller, check+"GET /v2 HTTP/1.1\r\nHost: weir\r\n\r\n"+allowedCall+"\r\n"+strings.Repeat(check, 4))
		}()
		from := bufio.NewReader(caller)
		for i, want := range []int{200, 404, 200, 200, 200, 200, 429} {
			if response, body := receive(t, from); response.StatusCode != want {
				t.Errorf("response %d: %s %s, want %d", i, response.Status, body, want)
			}
		}
	})
}

// A proxy in front of a limiter could read such a request in another way than the limiter, and a client could hide a request in it.
func TestServer_RejectsRequestsThatCanBeReadInTwoWays(t *testing.T) {
	const post = "POST /v1/check HTTP/1.1\r\nHost: weir\r\n"
	for name, request := range map[string]string{
		"two lengths":                post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
		"a length with a sign":       post + "Content-Length: +1\r\n\r\n{",
		"two codings":                post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"an unknown coding":          post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"two transfer encodings":     post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"a space before the colon":   post + "Content-Length : 1\r\n\r\n{",
		"a folded line at the start": "POST /v1/check HTTP/1.1\r\n Host: weir\r\n\r\n",
		"no host":                    "POST /v1/check HTTP/1.1\r\n\r\n",
		"two hosts":                  post + "Host: other\r\n\r\n",
		"a control in a value":       post + "X-Tenant-Id: a\x00b\r\n\r\n",
		"a control in the target":    "GET /v1/auth/shop\x01 HTTP/1.1\r\nHost: weir\r\n\r\n",
		"another version":            "GET /v1/auth/shop HTTP/3.0\r\nHost: weir\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, stop := servePipe(t)
				defer stop()
				go func() { _, _ = io.WriteString(caller, request) }()
				response, body := receive(t, bufio.NewReader(caller))
				if response.StatusCode < 400 || !response.Close {
					t.Errorf("%s %s, closes: %v; want an error and the end", response.Status, body, response.Close)
				}
			})
		})
	}
}

// A request with a length and chunks is read as RFC 9112, section 6.3, defines it: the length has no meaning.
func TestServer_ReadsTheChunksOfARequestThatHasALengthToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, stop := servePipe(t)
		defer stop()
		go func() {
			_, _ = fmt.Fprintf(caller, "POST /v1/check HTTP/1.1\r\nHost: weir\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n%s\r\n",
				len(acme), acme, allowedCall)
		}()
		from := bufio.NewReader(caller)
		for range 2 {
			if response, body := receive(t, from); response.StatusCode != http.StatusOK {
				t.Errorf("%s %s, want a decision", response.Status, body)
			}
		}
	})
}

// A client that sends a byte from time to time does not hold its connection longer than one that sends nothing.
func TestServer_ClosesConnectionsOfClientsThatTrickle(t *testing.T) {
	for name, test := range map[string]struct {
		complete, slow string
		within         time.Duration
	}{
		"the first head":        {"", "POST /v1/check HTTP/1.1\r\nHost: weir\r\nX: " + strings.Repeat("x", 1000), 7 * time.Second},
		"a later head":          {allowedCall + "\r\n", "POST /v1/check HTTP/1.1\r\nHost: weir\r\nX: " + strings.Repeat("x", 1000), 10 * time.Second}, // after four bytes
		"many short lines":      {"", strings.Repeat("A: b\r\n", 1000), 7 * time.Second},
		"a body":                {"POST /v1/check HTTP/1.1\r\nHost: weir\r\nContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000), 13 * time.Second},
		"chunks":                {"POST /v1/check HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\n \r\n", 200), 13 * time.Second},
		"empty lines, no more":  {"", strings.Repeat("\r\n", 500), 7 * time.Second},
		"the preface of HTTP/2": {"", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00", 1000), 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, stop := servePipe(t)
				defer stop()
				if _, err := io.WriteString(caller, test.complete); err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = io.Copy(io.Discard, caller) }()
				began := time.Now()
				var err error
				for at := 0; err == nil && at < len(test.slow); at++ {
					_, err = io.WriteString(caller, test.slow[at:at+1])
					time.Sleep(time.Second)
				}
				if took := time.Since(began); err == nil || took > test.within {
					t.Errorf("%v after %v, want the end within %v", err, took, test.within)
				}
			})
		})
	}
}

// A client that leaves while its request waits for a turn costs nothing more.
func TestServer_EndsTheWaitOfACallerThatDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, ours := net.Pipe()
		left := make(chan time.Time, 1)
		s := &Server{
			Check: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				left <- time.Now()
			}),
			CheckListener: connection.PipeListener(ours), Readiness: NewReadiness(newEngine(t, atNoon()), nil), Log: discard(),
		}
		server, listener := s.check()
		done := make(chan error, 1)
		go func() { done <- server.Serve(listener) }()
		if _, err := io.WriteString(caller, allowedCall+"\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		began := time.Now()
		_ = caller.Close()
		if took := (<-left).Sub(began); took > 0 {
			t.Errorf("the handler noticed after %v", took)
		}
		_ = server.Close()
		<-done
		time.Sleep(time.Second) // net/http keeps a closed connection for half a second
	})
}

func TestServer_EndsHandshakesOfClientsThatStall(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(certified.Close)
	synctest.Test(t, func(t *testing.T) {
		caller, ours := net.Pipe()
		readiness := NewReadiness(newEngine(t, atNoon()), nil)
		ctx, cancel := context.WithCancel(t.Context())
		s := &Server{
			Check: http.NotFoundHandler(), CheckListener: connection.PipeListener(ours),
			Ops: NewOpsHandler(prometheus.NewRegistry(), readiness), OpsListener: connection.PipeListener(),
			TLS: &tls.Config{Certificates: certified.TLS.Certificates}, Readiness: readiness, Log: discard(),
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		began := time.Now()
		if got, err := io.ReadAll(caller); len(got) > 0 || err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("%q and %v after %v, want the end after 5 s", got, err, time.Since(began))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
