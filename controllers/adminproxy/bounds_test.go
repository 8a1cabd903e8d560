package adminproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
)

const mebibyte = 1 << 20

// heap measures the memory that is in use. Garbage does not count: on a busy machine, a goroutine leaves some mebibytes of it until the
// measurement ends.
type heap struct {
	mu            sync.Mutex
	before, worst uint64
}

func (h *heap) measure() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	h.worst = max(h.worst, live[0].Value.Uint64())
	return live[0].Value.Uint64()
}

// measuredWriter is a response that measures the heap when it gets a body, and counts the bytes.
type measuredWriter struct {
	heap  *heap
	bytes int
}

func (*measuredWriter) Header() http.Header { return http.Header{} }
func (*measuredWriter) WriteHeader(int)     {}
func (w *measuredWriter) Write(text []byte) (int, error) {
	if w.bytes += len(text); len(text) > mebibyte {
		w.heap.measure()
	}
	return len(text), nil
}

// largeString answers with a JSON string of this size, which begins with name. It measures the heap while it does.
func largeString(h *heap, name string, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `"`+name)
		text := strings.Repeat("x", mebibyte/4)
		for i := range size / len(text) {
			if i%8 == 0 {
				h.measure()
			}
			_, _ = io.WriteString(w, text)
		}
		_, _ = io.WriteString(w, `"`)
	}
}

func TestHandler_KeepsOneLargeAnswerInMemory(t *testing.T) {
	const size, replicas, requests = 8 * mebibyte, 3, 3
	h, used := newHarness(t), &heap{}
	h.caller.timeout, h.caller.total = time.Minute, time.Minute // the measurements of the heap take long on a busy machine
	h.allowed["jane get limiters.weir.dev/rules of edge/main"] = true
	for i := range replicas {
		h.pod(nil, largeString(used, strconv.Itoa(i), size))
	}
	used.before = used.measure()
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			w := &measuredWriter{heap: used}
			r := httptest.NewRequest(http.MethodGet, "/admin/v1/limiters/edge/main/rules", http.NoBody)
			r.Header.Set("Authorization", "Bearer jane")
			h.handler.ServeHTTP(w, r)
			if w.bytes < replicas*size {
				t.Errorf("%d bytes, want those of all replicas", w.bytes)
			}
		})
	}
	all.Wait()
	// One answer, half of it again while it grows, and a mebibyte or two of each request.
	if got := used.worst - used.before; got > 20*mebibyte {
		t.Errorf("%d requests to %d replicas with %d MiB each take %d MiB", requests, replicas, size/mebibyte, got/mebibyte)
	}
}

func TestCallAll_CallsAllReplicasOverABoundedNumberOfConnections(t *testing.T) {
	h := newHarness(t)
	h.allowed["jane get limiters.weir.dev/rules of edge/main"] = true
	var calls, running, most atomic.Int64
	full := make(chan struct{})
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		n := running.Add(1)
		defer running.Add(-1)
		if n == 32 && most.Swap(n) < n {
			close(full)
		}
		if n > 32 {
			t.Errorf("%d calls at the same time", n)
		}
		<-full
		_, _ = io.WriteString(w, "{}")
	})
	var first corev1.PodList
	if err := h.kube.List(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	for range 99 {
		h.pod(func(p *corev1.Pod) {
			p.Status.PodIP, p.Spec.Containers[0].Ports = first.Items[0].Status.PodIP, first.Items[0].Spec.Containers[0].Ports
		}, nil)
	}
	_, text := h.call("jane", "GET", "edge/main/rules", "")
	var answer proxyapi.Answer
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Replicas) != 100 || calls.Load() != 100 {
		t.Fatalf("%d calls: %v\n%s", calls.Load(), err, text)
	}
	for _, r := range answer.Replicas {
		if r.Status != 200 {
			t.Errorf("%+v", r)
		}
	}
}

// answers calls the pods of the Limiter edge/main with this timeout, and returns what each answers.
func (h *harness) answers(timeout time.Duration, most int, isChange bool) (got []string) {
	h.Helper()
	c := newCaller(h.key)
	c.timeout = timeout
	var pods corev1.PodList
	if err := h.kube.List(h.Context(), &pods); err != nil {
		h.Fatal(err)
	}
	var of v1alpha1.Limiter
	of.Namespace, of.Name = "edge", "main"
	err := c.callAll(h.Context(), &of, pods.Items, &call{method: http.MethodGet, path: "/", maxAnswer: most, isChange: isChange}, func(r *proxyapi.Replica) bool {
		got = append(got, fmt.Sprintf("%s %d %.40s%s", r.Pod, r.Status, r.Body, r.Error))
		return true
	})
	if err != nil {
		h.Fatal(err)
	}
	return got
}

func TestCallAll_AReplicaThatHangsOrBreaksOffTakesNoAnswerFromOthers(t *testing.T) {
	t.Parallel() // it waits for the timeout
	h := newHarness(t)
	ended := make(chan struct{})
	defer close(ended)
	h.pod(nil, func(http.ResponseWriter, *http.Request) { <-ended })
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "[")
		_ = http.NewResponseController(w).Flush()
		<-ended
	})
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"a":1}`) })
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		_, _ = io.WriteString(w, `{"a":1}`)
	})
	want := []string{
		"main-1 0 no answer within 5s", "main-2 0 no answer within 5s", `main-3 200 {"a":1}`, "main-4 0 read the answer: unexpected EOF",
	}
	if got := h.answers(replicaTimeout, maxAnswer, false); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestCallAll_NamesTheTimeOfAllCalls(t *testing.T) {
	h := newHarness(t)
	ended := make(chan struct{})
	defer close(ended)
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "[")
		_ = http.NewResponseController(w).Flush()
		<-ended
	})
	h.caller.total = time.Second / 2
	h.allowed["jane get limiters.weir.dev/rules of edge/main"] = true
	const want = `"error":"the calls of the replicas have taken 25s: try again"`
	if status, text := h.call("jane", "GET", "edge/main/rules", ""); status != 200 || !strings.Contains(text, want) {
		t.Errorf("%d %s, want %s", status, text, want)
	}
}

func TestCallAll_BoundsWhatAReplicaSends(t *testing.T) {
	h := newHarness(t)
	for _, size := range []int{10, 11} {
		h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `"`+strings.Repeat("x", size-2)+`"`)
		})
	}
	h.pod(nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 64<<10))
		_, _ = io.WriteString(w, "1")
	})
	want := []string{`main-1 200 "xxxxxxxx"`, "main-2 0 the answer is larger than 10 bytes"}
	for _, isChange := range []bool{false, true} {
		got := h.answers(time.Minute, 10, isChange)
		if len(got) != 3 || fmt.Sprint(got[:2]) != fmt.Sprint(want) || !strings.HasPrefix(got[2], "main-3 0 net/http: ") {
			t.Errorf("change %v: got  %q\nwant %q", isChange, got, want)
		}
	}
}

func TestReadBounded_WaitsUntilNoOtherLargeAnswerIsInMemory(t *testing.T) {
	c := newCaller(nil)
	read := func(ctx context.Context, size int) (int, func(), error) {
		body, release, err := c.readBounded(ctx, strings.NewReader(strings.Repeat("x", size)), 4*mebibyte)
		return len(body), release, err
	}
	n, release, err := read(t.Context(), mebibyte+1)
	if n != mebibyte+1 || err != nil {
		t.Fatal(n, err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if n, _, err := read(late, mebibyte+1); n != 0 || err == nil || err.Error() != "the operator is busy with large answers of other replicas: try again" {
		t.Error(n, err)
	}
	if n, end, err := read(late, mebibyte); n != mebibyte || err != nil {
		t.Error("a small answer does not wait:", n, err)
	} else {
		end()
	}
	release()
	if n, end, err := read(t.Context(), 4*mebibyte+2); n != 4*mebibyte+1 || err != nil {
		t.Error("a byte more than allowed:", n, err)
	} else {
		end()
	}
	if n, _, err := read(t.Context(), 4*mebibyte); n != 4*mebibyte || err != nil {
		t.Error(n, err)
	}
}

func TestRoute_UsersWhoReadDoNotDelayAReset(t *testing.T) {
	h := newResetHarness(t)
	h.allowed["jane get limiters.weir.dev/rules of edge/main"] = true
	begun, end := make(chan struct{}), make(chan struct{})
	h.pod(nil, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/rules") {
			begun <- struct{}{}
			<-end
		}
		_, _ = io.WriteString(w, "{}")
	})
	read := func(ctx context.Context) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/admin/v1/limiters/edge/main/rules", http.NoBody).WithContext(ctx)
		r.Header.Set("Authorization", "Bearer jane")
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	var reads sync.WaitGroup
	for range 4 {
		reads.Go(func() {
			if status, text := read(t.Context()); status != 200 || !strings.Contains(text, `"status":200`) {
				t.Errorf("%d %s", status, text)
			}
		})
		<-begun
	}
	impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if status, text := read(impatient); status != 503 || !strings.Contains(text, "the operator serves 4 requests of this kind already: try again") {
		t.Errorf("a request more: %d %s", status, text)
	}
	if status, text := h.call("jane", "POST", "edge/main/counters/reset", aReset); status != 200 || !strings.Contains(text, `"status":200`) {
		t.Errorf("a reset: %d %s", status, text)
	}
	close(end)
	reads.Wait()
	go func() { <-begun }()
	if status, _ := read(t.Context()); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}

func TestDescribe_AddsTheStateOfThePod(t *testing.T) {
	deleted, pending := corev1.Pod{}, corev1.Pod{}
	deleted.DeletionTimestamp, pending.Status.Phase = &metav1.Time{}, corev1.PodPending
	for want, pod := range map[string]*corev1.Pod{"the pod is being deleted: x": &deleted, "the pod is starting: x": &pending, "x": {}} {
		if got := describe(pod, errors.New("x")); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestCallAll_EndsWithTheFirstAnswerThatIsNotRead(t *testing.T) {
	h := newHarness(t)
	for range 3 {
		h.pod(nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	}
	var pods corev1.PodList
	if err := h.kube.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	of := v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "main"}}
	var got []string
	err := newCaller(h.key).callAll(t.Context(), &of, pods.Items, &call{method: http.MethodGet, path: "/", maxAnswer: 10}, func(r *proxyapi.Replica) bool {
		got = append(got, r.Pod)
		return len(got) < 2
	})
	if err != nil || fmt.Sprint(got) != "[main-1 main-2]" {
		t.Errorf("%q are read (%v)", got, err)
	}
}
