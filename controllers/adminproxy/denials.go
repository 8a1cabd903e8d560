package adminproxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxStreams is the number of streams of denials that an operator serves.
	maxStreams = 64
	// resume is the time between two looks for replicas that are not followed. The permission is verified again, too.
	resume = 10 * time.Second
	// lineTimeout bounds the time that a line takes to be sent, as on a limiter.
	lineTimeout = 10 * time.Second
)

// DenialLine is a line in the stream of the denials of all replicas. An empty one shows that the stream continues.
type DenialLine struct {
	// Pod is the name of the replica. Without it, Error is why the stream ends.
	Pod string `json:"pod,omitempty"`
	// Following is true in the first line of a replica.
	Following bool `json:"following,omitempty"`
	// Error is why the replica is not followed anymore, or cannot be followed.
	Error string `json:"error,omitempty"`
	// Denial is a record of the decision log.
	Denial json.RawMessage `json:"denial,omitempty"`
	// Dropped is the number of denials of the replica before this line that are not in the stream, because there were too many.
	Dropped int64 `json:"dropped,omitempty"`
}

var errStopping = errors.New("the operator stops: call it again")

type streamsKey struct{}

// withStreams returns a context for requests. Their streams end when serving is done.
func withStreams(ctx, serving context.Context) context.Context {
	return context.WithValue(ctx, streamsKey{}, serving)
}

// denials streams the denials of all replicas of a Limiter, until the user closes the connection.
func (h *handler) denials(w http.ResponseWriter, r *http.Request) {
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	action := action{"get", "denials", observer}
	user, bad := h.Access.admit(r, name.Namespace, name.Name, action)
	if bad != nil {
		bad.write(w)
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		newProblem(http.StatusServiceUnavailable, "the operator serves %d streams of denials already: end one of them", maxStreams).write(w)
		return
	}
	found, pods, bad := h.pods(r.Context(), name)
	if bad != nil {
		bad.write(w)
		return
	}
	transport, err := h.caller.transport(found)
	if err != nil {
		newProblem(http.StatusInternalServerError, "%v", err).write(w)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if serving, is := ctx.Value(streamsKey{}).(context.Context); is {
		defer context.AfterFunc(serving, func() { cancel(errStopping) })()
	}
	s := &stream{
		w: w, out: http.NewResponseController(w), limiter: name.String(), running: map[types.UID]bool{}, reported: map[types.UID]bool{},
		follower: follower{
			transport: transport, request: &call{path: "/admin/v1/denials", query: r.URL.RawQuery, user: user.GetName()}, events: make(chan event, 64),
		},
	}
	ticker := time.NewTicker(resume)
	defer ticker.Stop()
	s.run(ctx, pods, ticker.C, func() ([]corev1.Pod, *problem) { return h.look(r.WithContext(ctx), name, action) })
}

// look returns the pods of a Limiter for a stream that continues, or why it must end.
func (h *handler) look(r *http.Request, name types.NamespacedName, do action) ([]corev1.Pod, *problem) {
	if _, bad := h.Access.admit(r, name.Namespace, name.Name, do); bad != nil {
		return nil, bad
	}
	_, pods, bad := h.pods(r.Context(), name)
	if bad != nil && bad.Status == http.StatusServiceUnavailable { // the API server is unavailable, or there are no pods: this can end
		return nil, nil
	}
	return pods, bad
}

// stream is a response with the denials of several replicas.
type stream struct {
	follower

	w       http.ResponseWriter
	out     *http.ResponseController
	limiter string
	// begun is true if the status has been sent. Until a replica is followed, the lines are held.
	begun bool
	held  []DenialLine
	// rejected is the first answer of a replica that rejects the request.
	rejected *problem
	// running has the pods that are followed or called, reported those of which the user knows that they are not followed.
	running, reported map[types.UID]bool
}

// run follows pods, and at each tick those that look returns, until ctx is done, the user does not read, or look returns a problem.
func (s *stream) run(ctx context.Context, pods []corev1.Pod, tick <-chan time.Time, look func() ([]corev1.Pod, *problem)) {
	s.start(ctx, pods)
	for {
		var ok bool
		select {
		case e := <-s.events:
			ok = s.handle(&e)
		case <-tick:
			pods, bad := look()
			if bad != nil {
				_ = s.begin() && s.write(&DenialLine{Error: bad.Detail})
				return
			}
			s.start(ctx, pods)
			ok = s.begin() && s.write(&DenialLine{})
		case <-ctx.Done():
			if err := context.Cause(ctx); errors.Is(err, errStopping) {
				_ = s.begin() && s.write(&DenialLine{Error: err.Error()})
			}
			return
		}
		if !ok || s.begun && len(s.events) == 0 && s.out.Flush() != nil {
			return
		}
	}
}

// start follows the pods that are not followed.
func (s *stream) start(ctx context.Context, pods []corev1.Pod) {
	for i := range pods {
		if pod := &pods[i]; !s.running[pod.UID] {
			s.running[pod.UID] = true
			go s.follow(ctx, pod)
		}
	}
}

// handle writes what the user does not know yet. It returns false if the stream has ended.
func (s *stream) handle(e *event) bool {
	if !e.ended {
		delete(s.reported, e.uid)
		return s.begin() && s.write(&e.line)
	}
	delete(s.running, e.uid)
	if s.rejected == nil {
		s.rejected = e.problem
	}
	if !s.reported[e.uid] {
		s.reported[e.uid] = true
		if !s.begun {
			s.held = append(s.held, e.line)
		} else if !s.write(&e.line) {
			return false
		}
	}
	if s.begun || len(s.running) > 0 {
		return true
	}
	s.fail()
	return false
}

// begin sends the status and the lines that are held.
func (s *stream) begin() bool {
	if s.begun {
		return true
	}
	s.begun = true
	s.w.Header().Set("Content-Type", "application/x-ndjson")
	for i := range s.held {
		if !s.write(&s.held[i]) {
			return false
		}
	}
	s.held = nil
	return true
}

// fail answers that no replica can be followed.
func (s *stream) fail() {
	s.extend()
	if s.rejected != nil {
		s.rejected.write(s.w)
		return
	}
	var reasons []string
	for i := range s.held {
		reasons = append(reasons, "replica "+s.held[i].Pod+": "+s.held[i].Error)
	}
	newProblem(http.StatusServiceUnavailable, "no replica of Limiter %s answers: %s", s.limiter, strings.Join(reasons, "; ")).write(s.w)
}

// write writes a line. It returns false if the user does not read.
func (s *stream) write(line *DenialLine) bool {
	s.extend()
	return json.NewEncoder(s.w).Encode(line) == nil
}

// extend gives the user time to read what is written next: the timeout of the server is that of a request.
func (s *stream) extend() {
	_ = s.out.SetWriteDeadline(time.Now().Add(lineTimeout)) // fails for a writer without deadlines, as in a test
}
