package adminproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// listen serves h with the timeouts of Server, and returns its address.
func (h *harness) listen() string {
	h.Helper()
	server := httptest.NewUnstartedServer(h.handler)
	server.Config.ReadHeaderTimeout, server.Config.ReadTimeout, server.Config.WriteTimeout = 5*time.Second, 30*time.Second, time.Minute
	server.Start()
	h.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// send sends a request of a user, without its body, over a connection of its own.
func (h *harness) send(address, user, request string, size int) net.Conn {
	h.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", request, user, size); err != nil {
		h.Fatal(err)
	}
	if text := make([]byte, 12); size > 0 {
		if _, err := io.ReadFull(c, text); err != nil || string(text) != "HTTP/1.1 100" { // the handler reads the body
			h.Fatalf("%q (%v)", text, err)
		}
	}
	return c
}

// kubectl weir bypass end reads the list of bypasses first. An observer of any Limiter sends requests whose bodies never arrive.
func TestReadRequest_UsersWhoSendNoBodyDelayNoOthers(t *testing.T) {
	t.Parallel() // it waits for the timeout
	h := newHarness(t)
	h.allowed["olga get limiters.weir.dev/bypasses of other/limiter"] = true // another namespace; the Limiter does not even exist
	h.allowed["jane get limiters.weir.dev/bypasses of edge/main"] = true
	h.replica(200, `{"bypasses":[]}`)
	address := h.listen()
	began := time.Now()
	var last net.Conn
	for range 4 {
		last = h.send(address, "olga", "GET /admin/v1/limiters/other/limiter/bypasses", 1)
	}
	r := httptest.NewRequest(http.MethodGet, "/admin/v1/limiters/edge/main/bypasses", http.NoBody)
	r.Header.Set("Authorization", "Bearer jane")
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	if took := time.Since(began); w.Code != 200 || took > 4*time.Second {
		t.Errorf("after %v: %d %s", took, w.Code, w.Body)
	}
	text, err := io.ReadAll(last) // within less than the ReadTimeout
	if took := time.Since(began); err != nil || !strings.Contains(string(text), "the body has not arrived within 5s") || took > 20*time.Second {
		t.Errorf("after %v: %s (%v)", took, text, err)
	}
}

func TestReadBody_BoundsTheLargeBodiesInMemory(t *testing.T) {
	h := &handler{bodies: make(chan struct{}, 1)}
	read := func(ctx context.Context, size int) (int, func(), error) {
		body, release, err := h.readBody(ctx, strings.NewReader(strings.Repeat("x", size)))
		return len(body), release, err
	}
	n, release, err := read(t.Context(), 64<<10+1)
	if n != 64<<10+1 || err != nil {
		t.Fatal(n, err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if n, _, err := read(late, 64<<10+1); n != 0 || err == nil {
		t.Error("a second large body:", n, err)
	}
	if n, _, err := read(late, 64<<10); n != 64<<10 || err != nil {
		t.Error("a small body does not wait:", n, err)
	}
	release()
	if n, _, err := read(t.Context(), 9*mebibyte); n != 8*mebibyte+1 || err != nil {
		t.Error("a byte more than allowed:", n, err)
	}
}

// blockedWriter is the response of a user who does not read.
type blockedWriter struct {
	header         http.Header
	blocked, until chan struct{}
	deadlines      []time.Time
}

func (w *blockedWriter) Header() http.Header { return w.header }
func (*blockedWriter) WriteHeader(int)       {}
func (w *blockedWriter) Write(text []byte) (int, error) {
	if len(text) > mebibyte {
		close(w.blocked)
		<-w.until
		return 0, io.ErrShortWrite
	}
	return len(text), nil
}

func (w *blockedWriter) SetWriteDeadline(at time.Time) error {
	w.deadlines = append(w.deadlines, at)
	return nil
}

// A reset of many counters has a large answer.
func TestCallAll_AUserWhoDoesNotReadDoesNotHideThatAResetWasDone(t *testing.T) {
	t.Parallel() // another user waits for the timeout
	h := newResetHarness(t)
	for _, user := range []string{"olga", "joe"} {
		h.allowed[user+" get limiters.weir.dev/rules of edge/main"] = true
	}
	large := `"` + strings.Repeat("x", 2*mebibyte) + `"`
	h.pod(nil, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/rules") {
			_, _ = io.WriteString(w, large)
			return
		}
		_, _ = io.WriteString(w, `{"identifier":"acme","counters":[{"policy":"shop/daily","identifier":"acme"}],"more":`+large+`}`)
	})
	w := &blockedWriter{header: http.Header{}, blocked: make(chan struct{}), until: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest(http.MethodGet, "/admin/v1/limiters/edge/main/rules", http.NoBody)
		r.Header.Set("Authorization", "Bearer olga")
		h.handler.ServeHTTP(w, r)
	}()
	<-w.blocked
	status, text := h.call("jane", "POST", "edge/main/counters/reset", aReset)
	if e := strings.Join(h.events(), ""); !strings.Contains(text, `"status":200`) || !strings.Contains(e, "on 1 of 1 replicas") {
		t.Errorf("%d %.300s\nevents %q", status, text, e)
	}
	if _, text := h.call("joe", "GET", "edge/main/rules", ""); !strings.Contains(text, "the operator is busy with large answers of other replicas") {
		t.Errorf("another large answer: %.300s", text)
	}
	close(w.until)
	<-ended
	if last := time.Until(w.deadlines[len(w.deadlines)-1]); last > 11*time.Second {
		t.Errorf("the user has %v to read", last)
	}
}

// slowWriter is the response of a user who takes some time for each write.
type slowWriter struct {
	blockedWriter

	takes time.Duration
}

func (w *slowWriter) Write(text []byte) (int, error) {
	time.Sleep(w.takes)
	return len(text), nil
}

func TestUserWriter_BoundsTheTimeOfAllWrites(t *testing.T) {
	for isChange, want := range map[bool]time.Duration{true: 10 * time.Second, false: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			slow := &slowWriter{takes: 3 * time.Second}
			w, began := newUserWriter(slow, isChange), time.Now()
			for range 30 {
				if n, err := w.Write([]byte("x")); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			for i, at := range slow.deadlines {
				begins := time.Duration(i) * 3 * time.Second
				if got := at.Sub(began); got != min(begins+10*time.Second, want) {
					t.Errorf("change %v: the write after %v must end after %v", isChange, begins, got)
				}
			}
			w.left = time.Second
			slow.takes, slow.deadlines = 0, nil
			if n, err := w.Write(make([]byte, 5*mebibyte)); n != 5*mebibyte || err != nil || len(slow.deadlines) != 3 {
				t.Errorf("%d bytes (%v) in %d parts, want 3", n, err, len(slow.deadlines))
			}
		})
	}
}
