package throttle

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// countingObserver counts observations.
type countingObserver struct{ n int }

func (o *countingObserver) Observe(float64) { o.n++ }

func TestHandler_MeasuresDecisionsOnly(t *testing.T) {
	var observed countingObserver
	h := NewHandler(&stubEngine{answer: engine.Answer{Allowed: true}}, newTestSettings(t, defaultOptions()), Telemetry{Seconds: &observed})
	post(h, reviewBody(t, "create"))
	post(h, []byte("{}"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path, http.NoBody))
	if observed.n != 1 {
		t.Errorf("%d durations of one decision and two requests that are rejected", observed.n)
	}
	if got := w.Header().Get("Allow"); got != "POST" {
		t.Errorf("Allow: %q, want POST", got)
	}
}

// statuses records statuses.
type statuses []int

func (s *statuses) Count(status int) { *s = append(*s, status) }

func TestHandler_CountsEachRequestByItsStatus(t *testing.T) {
	denial := engine.Answer{Results: []engine.Result{{Rule: &matching.Compiled{Rule: rules.Rule{Policy: "_cluster/a", Axis: "User"}}}}}
	create := reviewBody(t, "create")
	for name, test := range map[string]struct {
		engine stubEngine
		method string
		body   []byte
		want   int
	}{
		"allowed":                    {stubEngine{answer: engine.Answer{Allowed: true}}, http.MethodPost, create, 200},
		"exempt":                     {stubEngine{}, http.MethodPost, reviewBody(t, "create", inNamespace("kube-system")), 200},
		"denied":                     {stubEngine{answer: denial}, http.MethodPost, create, 429},
		"passes without a decision":  {stubEngine{err: engine.ErrNoRules}, http.MethodPost, create, 503},
		"refused without a decision": {stubEngine{err: &engine.RefusedError{Policy: "_cluster/a"}}, http.MethodPost, create, 503},
		"no review":                  {stubEngine{}, http.MethodPost, []byte("{}"), 400},
		"another method":             {stubEngine{}, http.MethodGet, create, 405},
	} {
		var got statuses
		h := NewHandler(&test.engine, newTestSettings(t, defaultOptions()), Telemetry{Requests: &got})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(test.method, Path+"?timeout=2s", bytes.NewReader(test.body)))
		if len(got) != 1 || got[0] != test.want {
			t.Errorf("%s: %v, want %d", name, got, test.want)
		}
	}
}

// padded returns a review with white space to the given length.
func padded(t *testing.T, length int) []byte {
	t.Helper()
	body := reviewBody(t, "create")
	return append(body, strings.Repeat(" ", length-len(body))...)
}

// deadlineRecorder records the read deadline.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (w *deadlineRecorder) SetReadDeadline(deadline time.Time) error {
	w.deadline = deadline
	return nil
}

// A large body must arrive within 250 ms, and a second for each 16 MiB. It has no longer than the decision.
func TestHandler_BoundsTheTimeToReadALargeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t, &stubEngine{answer: engine.Answer{Allowed: true}})
		for _, test := range []struct {
			length  int
			timeout string
			want    time.Duration // 0 means no deadline
		}{
			{64 << 10, "2s", 0}, {1 << 20, "2s", 312500 * time.Microsecond}, {4 << 20, "2s", 500 * time.Millisecond}, {1 << 20, "200ms", 160 * time.Millisecond},
		} {
			w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequest(http.MethodPost, Path+"?timeout="+test.timeout, bytes.NewReader(padded(t, test.length)))
			if h.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("%d bytes: %d %s", test.length, w.Code, w.Body)
			}
			switch got := time.Until(w.deadline); {
			case test.want == 0 && !w.deadline.IsZero():
				t.Errorf("%d bytes have %v, want no deadline", test.length, got)
			case test.want > 0 && got != test.want:
				t.Errorf("%d bytes have %v of %s, want %v", test.length, got, test.timeout, test.want)
			}
		}
	})
}

func TestHandler_ReusesBuffersOfUpTo64KiB(t *testing.T) {
	released := map[string]func(*handler){
		"read": func(h *handler) {
			if _, bad := h.read(httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(reviewBody(t, "create")))); bad != nil {
				t.Fatalf("%+v", bad)
			}
		},
		"65536": func(h *handler) { h.release(bytes.NewBuffer(make([]byte, 1, 65536))) },
		"65537": func(h *handler) { h.release(bytes.NewBuffer(make([]byte, 1, 65537))) },
	}
	for name, release := range released {
		reused := false
		for range 50 { // a sync.Pool may drop a buffer, and does so under the race detector
			h := &handler{}
			release(h)
			if b, ok := h.buffers.Get().(*bytes.Buffer); ok {
				reused = true
				if b.Len() != 0 {
					t.Errorf("%s: a reused buffer has %d bytes", name, b.Len())
				}
			}
		}
		if want := name != "65537"; reused != want {
			t.Errorf("%s: the buffer is reused: %v, want %v", name, reused, want)
		}
	}
}

func TestReadBody_BoundsTheSize(t *testing.T) {
	for length, want := range map[int64]bool{32 << 20: true, 32<<20 + 1: false} {
		read := &countingReader{}
		r := httptest.NewRequest(http.MethodPost, Path, io.LimitReader(read, length))
		r.ContentLength = length
		var buffer bytes.Buffer
		if bad := readBody(r, &buffer); (bad == nil) != want || want && int64(buffer.Len()) != length {
			t.Errorf("%d bytes: %v after %d bytes", length, bad, buffer.Len())
		}
		if !want && read.calls != 0 {
			t.Errorf("%d bytes: reads the body", length)
		}
	}
}

// A chunked body would have to wait for memory, and it is unknown how much.
func TestReadBody_BoundsBodiesOfUnknownSizeTo64KiB(t *testing.T) {
	for length, want := range map[int64]int{64 << 10: 0, 64<<10 + 1: http.StatusLengthRequired} {
		r := httptest.NewRequest(http.MethodPost, Path, io.LimitReader(&countingReader{}, length))
		r.ContentLength = -1
		status := 0
		if bad := readBody(r, new(bytes.Buffer)); bad != nil {
			status = bad.Status
		}
		if status != want {
			t.Errorf("%d bytes: status %d, want %d", length, status, want)
		}
	}
}

// countingReader is an endless body.
type countingReader struct{ calls int }

func (r *countingReader) Read(p []byte) (int, error) {
	r.calls++
	return len(p), nil
}

func TestReadBody_AllocatesTheBufferOnce(t *testing.T) {
	content := make([]byte, 1<<20)
	body := bytes.NewReader(content)
	r := httptest.NewRequest(http.MethodPost, Path, http.NoBody)
	r.Body, r.ContentLength = io.NopCloser(body), 1<<20
	allocations := testing.AllocsPerRun(10, func() {
		body.Reset(content)
		var buffer bytes.Buffer
		if bad := readBody(r, &buffer); bad != nil {
			t.Fatalf("%+v", bad)
		}
		if buffer.Cap() > 1<<20+64<<10 {
			t.Errorf("a buffer of %d bytes for a body of %d", buffer.Cap(), 1<<20)
		}
	})
	if allocations > 3 {
		t.Errorf("%v allocations, want one for the buffer", allocations)
	}
}

func TestNewSettings_AcceptsTheBounds(t *testing.T) {
	for _, o := range []Options{{}, {MaxRetryAfter: time.Minute, WarnPercent: 100}} {
		if _, err := NewSettings(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestClip_CountsCharacters(t *testing.T) {
	for text, want := range map[string]string{"héllo": "héllo", "héllo!": "héll…", "hé": "hé"} {
		if got := clip(text, 5); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
