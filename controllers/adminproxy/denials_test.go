package adminproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/test/fixture/connection"
)

// following is a stream of denials of the user jane.
type following struct {
	*testing.T
	status int
	lines  *bufio.Reader
	end    context.CancelFunc
}

// follow begins a stream of denials. The operator stops when stop is called.
func (h *harness) follow(query string) (f *following, stop context.CancelFunc) {
	h.Helper()
	return h.followFrom(httptest.NewUnstartedServer(h.handler), query)
}

// followFrom is [harness.follow] from this server.
func (h *harness) followFrom(server *httptest.Server, query string) (f *following, stop context.CancelFunc) {
	h.Helper()
	serving, stop := context.WithCancel(h.Context())
	server.Config.BaseContext = func(net.Listener) context.Context { return withStreams(context.Background(), serving) }
	server.Start()
	f = h.read(server.Client(), server.URL, query)
	h.Cleanup(func() {
		f.end()
		server.Close() // waits until the handler has returned
		stop()
	})
	return f, stop
}

// read begins a stream of denials at the operator with this URL.
func (h *harness) read(client *http.Client, base, query string) *following {
	h.Helper()
	h.allowed["jane get limiters.weir.dev/denials of edge/main"] = true
	ctx, end := context.WithCancel(h.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+proxyapi.Prefix+"edge/main/denials"+query, http.NoBody)
	if err != nil {
		h.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer jane")
	response, err := client.Do(request)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		end()
		_ = response.Body.Close()
	})
	return &following{h.T, response.StatusCode, bufio.NewReader(response.Body), end}
}

// next returns the next line that is not empty, or the problem.
func (f *following) next() string {
	f.Helper()
	for {
		text, err := f.lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return "EOF"
		}
		var line DenialLine
		var bad problem
		if err := errors.Join(err, json.Unmarshal([]byte(text), &line), json.Unmarshal([]byte(text), &bad)); err != nil {
			f.Fatalf("%q: %v", text, err)
		}
		switch {
		case f.status != http.StatusOK:
			return fmt.Sprintf("%d %s", f.status, bad.Detail)
		case text != "{}\n":
			return strings.TrimSpace(text)
		}
	}
}

// streaming answers with lines, and keeps the stream open until the operator closes it, which it then reports to ended.
func streaming(ended chan<- struct{}, lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, line := range append([]string{"{}"}, lines...) {
			_, _ = io.WriteString(w, line+"\n")
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		ended <- struct{}{}
	}
}

func TestDenials_FollowsAllReplicasUntilTheUserEnds(t *testing.T) {
	h := newHarness(t)
	ended := make(chan struct{}, 2)
	h.pod(nil, streaming(ended, `{"denial":{"policy":"shop/daily"}}`, `{}`, `{"denial":{"policy":"shop/hourly"},"dropped":7}`))
	h.pod(nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "policy=a%2Fb" || r.URL.Path != "/admin/v1/denials" || r.Header.Get("Weir-Caller") != "jane" {
			t.Errorf("got %s for %q", r.URL, r.Header.Get("Weir-Caller"))
		}
		streaming(ended, `{"denial":{"policy":"shop/daily"}}`)(w, r)
	})
	f, _ := h.follow("?policy=a%2Fb")
	var got []string
	for range 5 {
		got = append(got, f.next())
	}
	slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(a[:len(`{"pod":"main-1"`)], b[:len(`{"pod":"main-1"`)]) })
	want := []string{
		`{"pod":"main-1","following":true}`, `{"pod":"main-1","denial":{"policy":"shop/daily"}}`, `{"pod":"main-1","denial":{"policy":"shop/hourly"},"dropped":7}`,
		`{"pod":"main-2","following":true}`, `{"pod":"main-2","denial":{"policy":"shop/daily"}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	f.end()
	<-ended
	<-ended
}

// late returns a server whose time to write the answer to a request is over before the handler begins.
func (h *harness) late() *httptest.Server {
	server := httptest.NewUnstartedServer(h.handler)
	server.Config.WriteTimeout = time.Nanosecond
	return server
}

func TestDenials_OutlastTheTimeoutsOfRequests(t *testing.T) {
	h := newHarness(t)
	h.pod(nil, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, `{"denial":{}}`+"\n")
			_ = http.NewResponseController(w).Flush()
		}
	})
	server := h.late()
	server.Config.ReadTimeout = time.Minute
	reading := &connection.ReadDeadline{Listener: server.Listener}
	server.Listener = reading
	f, _ := h.followFrom(server, "")
	f.next()
	for range 100 {
		if line := f.next(); line != `{"pod":"main-1","denial":{}}` {
			t.Fatal(line)
		}
	}
	if at := reading.At(); !at.IsZero() {
		t.Errorf("the operator would end the stream at %v, because the user sends nothing", at)
	}
}

func TestDenials_NamesReplicasThatAreNotFollowed(t *testing.T) {
	h := newHarness(t)
	begun := make(chan struct{})
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}\n")
		_ = http.NewResponseController(w).Flush()
		<-begun
	})
	h.pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nil)
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"policy a/b is not enforced"}`)
	})
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\n") })
	f, stop := h.follow("")
	var got []string
	for range 4 {
		got = append(got, f.next())
	}
	slices.Sort(got)
	want := []string{
		`{"pod":"main-1","following":true}`,
		`{"pod":"main-2","error":"the pod is starting: it has no address yet"}`,
		`{"pod":"main-3","error":"policy a/b is not enforced"}`,
		`{"pod":"main-4","error":"read the denials: invalid character '\u003c' looking for beginning of value"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	close(begun)
	if line := f.next(); line != `{"pod":"main-1","error":"it has ended the stream"}` {
		t.Error(line)
	}
	stop()
	if line, end := f.next(), f.next(); line != `{"error":"the operator stops: call it again"}` || end != "EOF" {
		t.Error(line, end)
	}
}

func TestDenials_AnswersWithAProblemIfNoReplicaCanBeFollowed(t *testing.T) {
	h := newHarness(t)
	h.pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nil)
	f, _ := h.followFrom(h.late(), "") // the answer outlasts the timeout of requests, as a stream does
	if got, want := f.next(), "503 no replica of Limiter edge/main answers: replica main-1: the pod is starting: it has no address yet"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"policy a/b is not enforced"}`)
	})
	f, _ = h.followFrom(h.late(), "")
	if got, want := f.next(), "404 policy a/b is not enforced"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestDenials_LimitsStreams(t *testing.T) {
	h := newHarness(t)
	ended := make(chan struct{}, 64)
	h.pod(nil, streaming(ended))
	for range 64 {
		if f, _ := h.follow(""); f.status != http.StatusOK {
			t.Fatal(f.next())
		}
	}
	if f, _ := h.follow(""); f.next() != "503 the operator serves 64 streams of denials already: end one of them" {
		t.Errorf("a stream more: status %d", f.status)
	}
}

func TestDenials_AStreamThatHasEndedMakesRoomForAnother(t *testing.T) {
	h := newHarness(t)
	h.allowed["jane get limiters.weir.dev/denials of edge/main"] = true
	h.pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nil) // no replica can be followed, so each stream ends
	for n := range maxStreams + 1 {
		if status, text := h.call("jane", "GET", "edge/main/denials", ""); status != 503 || !strings.Contains(text, "no replica of Limiter edge/main answers") {
			t.Fatalf("after %d streams: %d %s", n, status, text)
		}
	}
}

func TestServer_EndsStreamsWhenItStops(t *testing.T) {
	h := newHarness(t)
	ended := make(chan struct{}, 1)
	h.pod(nil, streaming(ended))
	address, client, stop := start(t, h.handler)
	f := h.read(client, "https://"+address, "")
	if line := f.next(); line != `{"pod":"main-1","following":true}` {
		t.Error(line)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if line := f.next(); line != `{"error":"the operator stops: call it again"}` {
		t.Error(line)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	<-ended
}

// lineWriter is a response whose lines a test receives.
type lineWriter chan string

func (lineWriter) Header() http.Header { return http.Header{} }
func (lineWriter) WriteHeader(int)     {}
func (lineWriter) Flush()              {}
func (w lineWriter) Write(line []byte) (int, error) {
	w <- strings.TrimSpace(string(line))
	return len(line), nil
}

func TestStream_FollowsLaterReplicasUntilThePermissionEnds(t *testing.T) {
	h := newHarness(t)
	ended := make(chan struct{}, 2)
	var calls atomic.Int32
	var allowed atomic.Bool
	allowed.Store(true)
	h.pod(nil, func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1:
			_, _ = io.WriteString(w, "{}\n")
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			streaming(ended)(w, r)
		}
	})
	h.pod(nil, streaming(ended))
	var pods corev1.PodList
	if err := h.kube.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	transport, err := newCaller(h.key).transport(&v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "main"}})
	if err != nil {
		t.Fatal(err)
	}
	lines, tick, returned := make(lineWriter), make(chan time.Time), make(chan struct{})
	s := &stream{
		w: lines, out: http.NewResponseController(lines), running: map[types.UID]bool{}, reported: map[types.UID]bool{},
		follower: follower{transport: transport, request: &call{path: "/admin/v1/denials", user: "jane"}, events: make(chan event, 64)},
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go func() {
		defer close(returned)
		s.run(ctx, pods.Items[:1], tick, func() ([]corev1.Pod, *problem) {
			if !allowed.Load() {
				return nil, newProblem(http.StatusForbidden, "not allowed")
			}
			return pods.Items, nil
		})
	}()
	got := []string{<-lines} // ticks come later
	for len(got) < 4 {
		select {
		case line := <-lines:
			if line != "{}" {
				got = append(got, line)
			}
		case tick <- time.Time{}:
		}
	}
	slices.Sort(got)
	want := []string{
		`{"pod":"main-1","error":"it has ended the stream"}`, `{"pod":"main-1","following":true}`, `{"pod":"main-1","following":true}`,
		`{"pod":"main-2","following":true}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	allowed.Store(false)
	for last, open := "", true; open; {
		select {
		case last = <-lines:
		case tick <- time.Time{}:
		case <-returned:
			if open = false; last != `{"error":"not allowed"}` {
				t.Errorf("the stream ends with %s", last)
			}
		}
	}
	end()
	<-ended
	<-ended
}
