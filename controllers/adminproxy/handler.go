package adminproxy

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/limiter"
)

// Config holds the dependencies of the endpoint.
type Config struct {
	Access *Access
	// Client reads Limiters and policies, from a cache, and creates events.
	Client client.Client
	// Uncached reads pods.
	Uncached client.Reader
	// HashKey is the master key of the installation.
	HashKey *limiter.HashKey
	Log     *slog.Logger
}

// maxRequests is the number of requests of a route that are forwarded at the same time. The others wait. Each route has its own, so that users
// who can only read do not keep others from resetting counters.
const maxRequests = 4

// A route is a request that is forwarded to the same path of the limiters.
type route struct {
	method, path string
	action       action
	maxAnswer    int
	// running has an element for each request that is forwarded.
	running chan struct{}
}

func routes() []route {
	list := []route{
		{http.MethodPost, "explain", action{"get", "explanations", observer}, maxAnswer, nil},
		{http.MethodGet, "rules", action{"get", "rules", observer}, maxAnswer, nil},
		{http.MethodGet, "rules/published", action{"get", "rules", observer}, maxAnswer, nil},
		{http.MethodGet, "top", action{"get", "top", observer}, maxAnswer, nil},
		{http.MethodGet, "counters", action{"get", "counters", observer}, maxAnswer, nil},
		{http.MethodPost, resetPath, action{"create", "resets", responder}, maxResetAnswer, nil},
		{http.MethodGet, "redis", action{"get", "redis", observer}, maxAnswer, nil},
		{http.MethodGet, bypassPath, action{"get", "bypasses", observer}, maxAnswer, nil},
		{http.MethodPost, bypassPath, action{"create", "bypasses", responder}, maxBypassAnswer, nil},
		{http.MethodPost, endBypassPath, action{"delete", "bypasses", responder}, maxBypassAnswer, nil},
	}
	for i := range list {
		list[i].running = make(chan struct{}, maxRequests)
	}
	return list
}

// begin waits until the request can be forwarded. The caller then calls end.
func (to *route) begin(ctx context.Context) (end func(), bad *problem) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	select {
	case to.running <- struct{}{}:
		return func() { <-to.running }, nil
	case <-ctx.Done():
		return nil, newProblem(http.StatusServiceUnavailable, "the operator serves %d requests of this kind already: try again", maxRequests)
	}
}

const (
	resetPath     = "counters/reset"
	bypassPath    = "bypasses"
	endBypassPath = "bypasses/end"
)

type handler struct {
	Config
	caller *caller
	// streams has an element for each stream of denials, bodies for each large body of a request.
	streams, bodies chan struct{}
}

// NewHandler returns the handler of the endpoint.
func NewHandler(config Config) http.Handler {
	return newHandler(config).mux()
}

func newHandler(config Config) *handler {
	return &handler{Config: config, caller: newCaller(config.HashKey), streams: make(chan struct{}, maxStreams), bodies: make(chan struct{}, maxLargeBodies)}
}

func (h *handler) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, to := range routes() {
		mux.HandleFunc(to.method+" "+proxyapi.Prefix+"{namespace}/{name}/"+to.path, func(w http.ResponseWriter, r *http.Request) {
			if bad := h.serve(w, r, &to); bad != nil {
				bad.write(w)
			}
		})
	}
	mux.HandleFunc("GET "+proxyapi.Prefix+"{namespace}/{name}/denials", h.denials)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		newProblem(http.StatusNotFound, "%q %q does not exist", r.Method, r.URL.Path).write(w)
	})
	return mux
}

// serve forwards a request to the replicas of a Limiter, or returns why not. Nothing about the Limiter is revealed to users who are not allowed
// to see it.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, to *route) *problem {
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	user, bad := h.Access.admit(r, name.Namespace, name.Name, to.action)
	if bad != nil {
		return bad
	}
	body, release, bad := h.readRequest(w, r) // first: a user who sends slowly delays no others
	if bad != nil {
		return bad
	}
	defer release()
	end, bad := to.begin(r.Context())
	if bad != nil {
		return bad
	}
	defer end()
	request := &call{
		method: to.method, path: "/admin/v1/" + to.path, query: r.URL.RawQuery, body: body, user: user.GetName(), maxAnswer: to.maxAnswer,
		isChange: to.action.role == responder,
	}
	var record changeRecord
	if record, request.body, bad = parseChange(to, body); bad != nil {
		return bad
	}
	found, pods, bad := h.pods(r.Context(), name)
	if bad != nil {
		return bad
	}
	if err := h.forward(w, r, found, pods, request, record); err != nil {
		return newProblem(http.StatusInternalServerError, "%v", err)
	}
	return nil
}

// changeRecord records a change, which replicas are called for.
type changeRecord interface {
	// add adds the answer of a replica.
	add(replica *proxyapi.Replica)
	// write logs the change of a user, and records it in events.
	write(ctx context.Context, h *handler, of *v1alpha1.Limiter, user string)
}

// parseChange returns the record of a change, and the body to forward. The record is nil for a request that changes nothing.
func parseChange(to *route, body []byte) (record changeRecord, forward []byte, bad *problem) {
	switch {
	case to.path == resetPath:
		return parseReset(body)
	case to.path == endBypassPath:
		return parseEndBypass(body)
	case to.path == bypassPath && to.method == http.MethodPost:
		return parseBypass(body, time.Now())
	default:
		return nil, body, nil
	}
}

// forward writes the answers of the replicas. If record is not nil, it is written, whether or not the user waits for the answer.
func (h *handler) forward(w http.ResponseWriter, r *http.Request, of *v1alpha1.Limiter, pods []corev1.Pod, request *call, record changeRecord) error {
	ctx := r.Context()
	if record != nil {
		ctx = context.WithoutCancel(ctx)
	}
	var answer *answerWriter
	to := newUserWriter(w, record != nil)
	err := h.caller.callAll(ctx, of, pods, request, func(replica *proxyapi.Replica) bool {
		if answer == nil {
			w.Header().Set("Content-Type", "application/json")
			answer = newAnswerWriter(to, of.Namespace+"/"+of.Name)
		}
		if record != nil {
			record.add(replica)
		}
		reads := answer.add(*replica)
		return reads || record != nil
	})
	if err != nil {
		return err
	}
	if record != nil {
		record.write(ctx, h, of, request.user)
	}
	answer.end()
	return nil
}

// pods returns a Limiter and its pods that have not ended.
func (h *handler) pods(ctx context.Context, name types.NamespacedName) (*v1alpha1.Limiter, []corev1.Pod, *problem) {
	var found v1alpha1.Limiter
	err := h.Client.Get(ctx, name, &found)
	if apierrors.IsNotFound(err) {
		return nil, nil, newProblem(http.StatusNotFound, "Limiter %s does not exist", name)
	}
	if err != nil {
		return nil, nil, newProblem(http.StatusServiceUnavailable, "read Limiter %s: %v", name, err)
	}
	var list corev1.PodList
	if err := h.Uncached.List(ctx, &list, client.InNamespace(name.Namespace), client.MatchingLabels(deployment.PodLabels(&found))); err != nil {
		return nil, nil, newProblem(http.StatusServiceUnavailable, "list the pods of Limiter %s: %v", name, err)
	}
	var running []corev1.Pod
	for i := range list.Items {
		if phase := list.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			running = append(running, list.Items[i])
		}
	}
	if len(running) == 0 {
		return nil, nil, newProblem(http.StatusServiceUnavailable, "Limiter %s has no pods", name)
	}
	return &found, running, nil
}
