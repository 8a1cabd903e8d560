package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/test/fixture/connection"
)

// servePipe serves a caller on one end of a pipe, with the fake clock of synctest.
func servePipe(t *testing.T) (caller net.Conn, stop func()) {
	t.Helper()
	e := newEngine(t, atNoon(), tenantRule("a", 5))
	caller, ours := net.Pipe()
	s := &Server{
		Check: newHandler(t, e), CheckListener: connection.PipeListener(ours),
		Ops: NewOpsHandler(prometheus.NewRegistry(), NewReadiness(e, nil)), OpsListener: connection.PipeListener(),
		Readiness: NewReadiness(e, nil), Log: discard(),
	}
	server, listener := s.check()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return caller, func() {
		_ = caller.Close()
		_ = server.Close()
		<-done
		time.Sleep(time.Second) // on the fake clock: net/http keeps a closed connection for half a second
	}
}

// docs/reference/http.md documents these times.
func TestServer_ClosesStalledConnections(t *testing.T) {
	const head = "POST /v1/check HTTP/1.1\r\nHost: weir\r\n"
	tests := map[string]struct {
		sent   string
		after  time.Duration
		answer string
	}{
		"no request":          {"", 5 * time.Second, ""},
		"half of the headers": {head, 5 * time.Second, ""},
		"half of the body":    {head + "Content-Length: 100\r\n\r\n{", 10 * time.Second, "body did not arrive within 10s"},
		"no second request":   {"GET /v1/auth/shop HTTP/1.1\r\nHost: weir\r\nX-Forwarded-Uri: /\r\nX-Forwarded-Method: GET\r\n\r\n", 2 * time.Minute, "200 OK"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, stop := servePipe(t)
				defer stop()
				began := time.Now()
				if _, err := io.WriteString(caller, test.sent); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(caller)
				if took := time.Since(began); took < test.after || took > test.after+time.Second {
					t.Errorf("cut off after %v, want %v", took, test.after)
				}
				if err != nil || !strings.Contains(string(answer), test.answer) || test.answer == "" && len(answer) > 0 {
					t.Errorf("answer %q, %v", answer, err)
				}
			})
		})
	}
}

func TestServer_RejectsHeadersAboveTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, stop := servePipe(t)
		defer stop()
		go func() { // the server stops reading before the end
			_, _ = io.WriteString(caller, "POST /v1/check HTTP/1.1\r\nHost: weir\r\nX-A: "+strings.Repeat("a", 300<<10)+"\r\n\r\n")
		}()
		response, err := http.ReadResponse(bufio.NewReader(caller), nil)
		if err != nil || response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%+v, %v", response, err)
		}
	})
}
