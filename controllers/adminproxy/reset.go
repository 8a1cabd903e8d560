package adminproxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/limiterevents"
)

const (
	// maxResetEvents is the number of events of one reset: replicas report the policies, and one of them can be compromised.
	maxResetEvents = 100
	// eventsTimeout bounds the creation of all events of one reset.
	eventsTimeout = 5 * time.Second
)

// resetRequest has the fields of admin.ResetRequest.
type resetRequest struct {
	Policy      string `json:"policy,omitempty"`
	AllPolicies bool   `json:"allPolicies,omitempty"`
	Identifier  string `json:"identifier"`
	Reason      string `json:"reason"`
	DryRun      bool   `json:"dryRun,omitempty"`
	ID          string `json:"id,omitempty"`
}

// resetResult has the fields of admin.ResetResult that are recorded.
type resetResult struct {
	// Identifier as it is counted: an API key is hashed. The request can contain the API key.
	Identifier string `json:"identifier"`
	Counters   []struct {
		Policy     string `json:"policy"`
		Identifier string `json:"identifier"`
	} `json:"counters"`
}

// parseReset returns the request in body, and the body to forward. It is the request that is recorded, in another encoding: so a replica cannot
// understand anything else.
func parseReset(body []byte) (request resetRequest, forward []byte, bad *problem) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return request, nil, newProblem(http.StatusBadRequest, "the body is invalid: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return request, nil, newProblem(http.StatusBadRequest, "the body is invalid: it must end after the JSON value")
	}
	forward, err := json.Marshal(request)
	if err != nil {
		return request, nil, newProblem(http.StatusBadRequest, "the body is invalid: %v", err)
	}
	return request, forward, nil
}

// recordReset logs a reset, and records it in events: on the named policy, on each policy whose counters were reset, or else on the Limiter.
// Events of the recorder are not used: it would count a second reset with another user and another reason as a repetition of the first one.
func (h *handler) recordReset(ctx context.Context, of *v1alpha1.Limiter, user string, request *resetRequest, replicas []Replica) {
	if request.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	identifiers, done := identifiersByPolicy(request.Policy, replicas)
	limiterName := of.Namespace + "/" + of.Name
	rejected := isRejected(replicas)
	recorded := false
	for i, policy := range slices.Sorted(maps.Keys(identifiers)) {
		if i == maxResetEvents {
			h.Log.Warn("counters reset", "policies", len(identifiers), "withoutEvent", len(identifiers)-i, "limiter", limiterName, "caller", user)
			break
		}
		note := resetNote(user, identifiers[policy], done, len(replicas), limiterName, request.Reason)
		var err error
		if !rejected {
			err = h.createEvent(ctx, of, policy, note)
			recorded = recorded || err == nil
		}
		h.Log.Warn("counters reset", "policy", policy, "identifier", identifiers[policy], "limiter", limiterName,
			"replicas", done, "of", len(replicas), "rejected", rejected, "caller", user, "reason", request.Reason, "error", err)
	}
	if recorded || rejected && request.Policy != "" {
		return
	}
	var err error
	if !rejected {
		err = h.createEventOn(ctx, of, limiterReference(of), of.Namespace, resetNote(user, "", done, len(replicas), limiterName, request.Reason))
	}
	h.Log.Warn("counters reset", "allPolicies", request.AllPolicies, "limiter", limiterName,
		"replicas", done, "of", len(replicas), "rejected", rejected, "caller", user, "reason", request.Reason, "error", err)
}

// resetNote returns the note of an event. The identifier is empty if it is not known how it is counted.
func resetNote(user, identifier string, done, replicas int, limiterName, reason string) string {
	who := "an identifier"
	if identifier != "" {
		who = fmt.Sprintf("identifier %q", identifier)
	}
	if done == 0 {
		return fmt.Sprintf("User %q tried to reset the counters of %s: 0 of %d replicas of Limiter %s confirmed: %s", user, who, replicas, limiterName, reason)
	}
	return fmt.Sprintf("User %q reset the counters of %s on %d of %d replicas of Limiter %s: %s", user, who, done, replicas, limiterName, reason)
}

// isRejected reports whether all replicas have rejected the request, so that nothing was reset.
func isRejected(replicas []Replica) bool {
	return !slices.ContainsFunc(replicas, func(r Replica) bool { return r.Status < 400 || r.Status >= 500 })
}

// identifiersByPolicy returns the identifier of each policy that was reset, and the number of replicas that have reset it. If a policy is
// named, it is the only one. Its identifier is empty if no replica reports it.
func identifiersByPolicy(named string, replicas []Replica) (identifiers map[string]string, done int) {
	identifiers = map[string]string{}
	if named != "" {
		identifiers[named] = ""
	}
	for i := range replicas {
		var result resetResult
		if replicas[i].Status != http.StatusOK || json.Unmarshal(replicas[i].Body, &result) != nil {
			continue
		}
		done++
		if named != "" {
			identifiers[named] = cmp.Or(result.Identifier, identifiers[named])
			continue
		}
		for _, c := range result.Counters {
			identifiers[c.Policy] = c.Identifier
		}
	}
	return identifiers, done
}

// createEvent creates an event on the policy with this name in rule sets: "namespace/name", or "cluster/name" of a ClusterRateLimitPolicy, which
// is searched first, because the API server reserves no namespace for Weir.
func (h *handler) createEvent(ctx context.Context, of *v1alpha1.Limiter, policy, note string) error {
	regarding, namespace, err := h.policy(ctx, policy)
	if err != nil {
		return err
	}
	return h.createEventOn(ctx, of, regarding, namespace, note)
}

func (h *handler) createEventOn(ctx context.Context, of *v1alpha1.Limiter, regarding corev1.ObjectReference, namespace, note string) error {
	related := limiterReference(of)
	return h.Client.Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: "weir-reset-", Namespace: namespace},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "weir-operator", ReportingInstance: "weir-operator",
		Type: corev1.EventTypeNormal, Reason: "Reset", Action: "Reset", Note: limiterevents.CutNote(note),
		Regarding: regarding,
		Related:   &related,
	})
}

func limiterReference(of *v1alpha1.Limiter) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Limiter", Namespace: of.Namespace, Name: of.Name, UID: of.UID,
	}
}

// policy returns a reference to a policy, and the namespace of its events.
func (h *handler) policy(ctx context.Context, policy string) (corev1.ObjectReference, string, error) {
	namespace, name, _ := strings.Cut(policy, "/")
	candidates := []struct {
		object   client.Object
		key      types.NamespacedName
		kind, in string
	}{{&v1alpha1.RateLimitPolicy{}, types.NamespacedName{Namespace: namespace, Name: name}, "RateLimitPolicy", namespace}}
	if namespace == clusterPrefix {
		candidates = slices.Insert(candidates, 0, struct {
			object   client.Object
			key      types.NamespacedName
			kind, in string
		}{&v1alpha1.ClusterRateLimitPolicy{}, types.NamespacedName{Name: name}, "ClusterRateLimitPolicy", metav1.NamespaceDefault})
	}
	var err error
	for _, c := range candidates {
		if err = h.Client.Get(ctx, c.key, c.object); err == nil {
			return corev1.ObjectReference{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: c.kind, Namespace: c.key.Namespace, Name: name, UID: c.object.GetUID(),
			}, c.in, nil
		}
	}
	return corev1.ObjectReference{}, "", fmt.Errorf("read policy %s: %w", policy, err)
}

// clusterPrefix is the namespace part of the names of ClusterRateLimitPolicies.
const clusterPrefix = "cluster"
