package adminproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/limiter"
)

// Prefix of all paths, followed by the namespace and the name of a Limiter.
const Prefix = "/admin/v1/limiters/"

// maxBody is the size of the largest request, in bytes, as on a limiter.
const maxBody = 8 << 20

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

// A route is a request that is forwarded to the same path of the limiters.
type route struct {
	method, path string
	action       action
}

func routes() []route {
	return []route{
		{http.MethodPost, "explain", action{"get", "explanations", observer}},
		{http.MethodGet, "rules", action{"get", "rules", observer}},
		{http.MethodGet, "top", action{"get", "top", observer}},
		{http.MethodGet, "counters", action{"get", "counters", observer}},
		{http.MethodPost, resetPath, action{"create", "resets", responder}},
	}
}

const resetPath = "counters/reset"

type handler struct {
	Config
	caller *caller
	// streams has an element for each stream of denials.
	streams chan struct{}
}

// NewHandler returns the handler of the endpoint.
func NewHandler(config Config) http.Handler {
	h := &handler{Config: config, caller: &caller{hashKey: config.HashKey}, streams: make(chan struct{}, maxStreams)}
	mux := http.NewServeMux()
	for _, to := range routes() {
		mux.HandleFunc(to.method+" "+Prefix+"{namespace}/{name}/"+to.path, func(w http.ResponseWriter, r *http.Request) {
			answer, bad := h.serve(r, to)
			if bad != nil {
				bad.write(w)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer) // it fails only if the caller has closed the connection
		})
	}
	mux.HandleFunc("GET "+Prefix+"{namespace}/{name}/denials", h.denials)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		newProblem(http.StatusNotFound, "%q %q does not exist", r.Method, r.URL.Path).write(w)
	})
	return mux
}

// serve forwards a request to the replicas of a Limiter. Nothing about the Limiter is revealed to users who are not allowed to see it.
func (h *handler) serve(r *http.Request, to route) (*Answer, *problem) {
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	user, bad := h.Access.admit(r, name.Namespace, name.Name, to.action)
	if bad != nil {
		return nil, bad
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, newProblem(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBody)
	} else if err != nil {
		return nil, newProblem(http.StatusBadRequest, "the body ended early")
	}
	ctx := r.Context()
	var reset resetRequest
	if to.path == resetPath {
		if reset, body, bad = parseReset(body); bad != nil {
			return nil, bad
		}
	}
	found, pods, bad := h.pods(ctx, name)
	if bad != nil {
		return nil, bad
	}
	if to.path == resetPath {
		ctx = context.WithoutCancel(ctx) // it is recorded, whether or not the caller waits for the answer
	}
	replicas, err := h.caller.callAll(ctx, found, pods, &call{
		method: to.method, path: "/admin/v1/" + to.path, query: r.URL.RawQuery, body: body, user: user.GetName(),
	})
	if err != nil {
		return nil, newProblem(http.StatusInternalServerError, "%v", err)
	}
	if to.path == resetPath {
		h.recordReset(ctx, found, user.GetName(), &reset, replicas)
	}
	return &Answer{Limiter: name.String(), Replicas: withoutRepetitions(replicas)}, nil
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
