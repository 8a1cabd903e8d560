package adminproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// newStream returns a stream of these pods, as if they were called.
func newStream(w http.ResponseWriter, pods ...types.UID) *stream {
	s := &stream{
		w: w, out: http.NewResponseController(w), limiter: "edge/main", running: map[types.UID]bool{}, reported: map[types.UID]bool{},
		follower: follower{request: &call{path: "/admin/v1/denials"}, events: make(chan event, 64)},
	}
	for _, uid := range pods {
		s.running[uid] = true
	}
	return s
}

func ended(uid types.UID, why string) *event {
	return &event{uid: uid, ended: true, line: DenialLine{Pod: string(uid), Error: why}}
}

func followed(uid types.UID) *event {
	return &event{uid: uid, line: DenialLine{Pod: string(uid), Following: true}}
}

func TestHandle_HoldsTheLinesUntilAReplicaIsFollowed(t *testing.T) {
	w := httptest.NewRecorder()
	s := newStream(w, "a", "b")
	if !s.handle(ended("a", "refused")) || w.Body.Len() > 0 {
		t.Fatalf("b can still be followed: %q", w.Body)
	}
	if !s.handle(followed("b")) {
		t.Fatal("b is followed")
	}
	want := `{"pod":"a","error":"refused"}` + "\n" + `{"pod":"b","following":true}` + "\n"
	if w.Body.String() != want || w.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%q with %v, want %q", w.Body, w.Header(), want)
	}
	if !s.handle(ended("b", "refused")) || !s.begun {
		t.Error("the stream ends with its last replica: a later one can be followed")
	}
}

func TestHandle_ReportsEachEndOfFollowingAReplicaOnce(t *testing.T) {
	w := httptest.NewRecorder()
	s := newStream(w, "a")
	var got []string
	for _, e := range []*event{followed("a"), ended("a", "first"), ended("a", "again"), followed("a"), ended("a", "second")} {
		w.Body.Reset()
		if !s.handle(e) {
			t.Fatalf("the stream ends with %+v", e.line)
		}
		got = append(got, strings.TrimSpace(w.Body.String()))
	}
	want := []string{`{"pod":"a","following":true}`, `{"pod":"a","error":"first"}`, "", `{"pod":"a","following":true}`, `{"pod":"a","error":"second"}`}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestHandle_AnswersWithTheFirstRejection(t *testing.T) {
	w := httptest.NewRecorder()
	s := newStream(w, "a", "b", "c")
	first, second := ended("b", "x"), ended("c", "x")
	first.problem, second.problem = newProblem(http.StatusNotFound, "first"), newProblem(http.StatusConflict, "second")
	for i, e := range []*event{ended("a", "refused"), first, second} {
		if more := s.handle(e); more != (i < 2) {
			t.Fatalf("event %d: the stream continues: %v", i, more)
		}
	}
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"detail":"first"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// closedWriter is the response of a user who has closed the connection: after some lines, it cannot write another one, or cannot flush them.
type closedWriter struct {
	httptest.ResponseRecorder

	lines, flushes int
}

func (w *closedWriter) Write(line []byte) (int, error) {
	if w.lines--; w.lines < 0 {
		return 0, errors.New("closed")
	}
	return len(line), nil
}

func (w *closedWriter) FlushError() error {
	if w.flushes--; w.flushes < 0 {
		return errors.New("closed")
	}
	return nil
}

// In a bubble of synctest, a stream that does not end is a deadlock.
func TestRun_EndsWhenTheUserDoesNotRead(t *testing.T) {
	for name, w := range map[string]*closedWriter{
		"a held line": {lines: 0, flushes: 9}, "a line": {lines: 1, flushes: 9}, "a later line": {lines: 2, flushes: 9},
		"the end of a replica": {lines: 3, flushes: 9}, "the flush": {lines: 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(w, "a", "b")
				for _, e := range []*event{ended("a", "x"), followed("b"), followed("b"), ended("b", "x")} {
					s.events <- *e
				}
				s.run(t.Context(), nil, nil, nil)
			})
		})
	}
}

func TestRun_FlushesWhenNoLineWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &closedWriter{lines: 9, flushes: 9}
		s := newStream(w, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		tick, returned := make(chan time.Time), make(chan struct{})
		s.events <- *ended("a", "x")
		go func() {
			defer close(returned)
			s.run(ctx, nil, tick, func() ([]corev1.Pod, *problem) { return nil, nil })
		}()
		check := func(when string, lines, flushes int) {
			t.Helper()
			if synctest.Wait(); 9-w.lines != lines || 9-w.flushes != flushes {
				t.Errorf("%s: %d lines and %d flushes, want %d and %d", when, 9-w.lines, 9-w.flushes, lines, flushes)
			}
		}
		check("a replica is not followed, the status is not sent", 0, 0)
		s.events <- *followed("b")
		check("b is followed", 2, 1)
		tick <- time.Time{}
		check("an empty line shows that the stream continues", 3, 2)
		cancel()
		<-returned
		check("the user has ended the stream", 3, 2)
	})
}

func TestRun_FlushesLinesThatWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &closedWriter{lines: 3, flushes: 9}
		s := newStream(w, "a")
		for range 4 {
			s.events <- *followed("a")
		}
		if s.run(t.Context(), nil, nil, nil); w.flushes != 9 {
			t.Errorf("%d flushes while lines wait", 9-w.flushes)
		}
	})
}

func TestLook_AStreamSurvivesAnOutageOfTheAPIServer(t *testing.T) {
	h := newHarness(t)
	h.pod(nil, nil)
	const permission = "jane get limiters.weir.dev/denials of edge/main"
	h.allowed[permission] = true
	var outage error
	kube := interceptor.NewClient(h.kube, interceptor.Funcs{
		List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return errors.Join(outage, kube.List(ctx, list, options...))
		},
	})
	e := &handler{Config: Config{
		Access: &Access{Authenticator: authenticator.RequestFunc(authenticate), Authorizer: authorizer.AuthorizerFunc(h.authorize)},
		Client: h.kube, Uncached: kube,
	}}
	look := func(name string) string {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Authorization", "Bearer jane")
		pods, bad := e.look(r, types.NamespacedName{Namespace: "edge", Name: name}, action{"get", "denials", observer})
		if bad != nil {
			return fmt.Sprintf("%d pods, ends with %d", len(pods), bad.Status)
		}
		return fmt.Sprintf("%d pods", len(pods))
	}
	check := func(when, name, want string) {
		t.Helper()
		if got := look(name); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("all works", "main", "1 pods")
	outage = errors.New("refused")
	check("the API server is unavailable", "main", "0 pods")
	outage = nil
	h.allowed["jane get limiters.weir.dev/denials of edge/gone"] = true
	check("the Limiter is deleted", "gone", "0 pods, ends with 404")
	delete(h.allowed, permission)
	check("the permission is withdrawn", "main", "0 pods, ends with 403")
}
