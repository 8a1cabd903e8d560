package adminproxy

import (
	"context"
	"encoding/json"
	"fmt"
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

// resetRequest and resetResult are the parts of admin.ResetRequest and admin.ResetResult that are recorded.
type resetRequest struct {
	Policy string `json:"policy"`
	Reason string `json:"reason"`
	DryRun bool   `json:"dryRun"`
}

type resetResult struct {
	// Identifier as it is counted: an API key is hashed. The request can contain the API key.
	Identifier string `json:"identifier"`
	Counters   []struct {
		Policy     string `json:"policy"`
		Identifier string `json:"identifier"`
	} `json:"counters"`
}

// recordReset logs a reset, and records an event on each policy whose counters were reset. Events of the recorder are not used: it would count
// a second reset with another user and another reason as a repetition of the first one.
func (h *handler) recordReset(ctx context.Context, of *v1alpha1.Limiter, user string, body []byte, replicas []Replica) {
	var request resetRequest
	if json.Unmarshal(body, &request) != nil || request.DryRun { // the replicas have rejected an invalid body
		return
	}
	identifiers, done := identifiersByPolicy(request.Policy, replicas)
	if done == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx) // the reset has been made, whether or not the caller waits
	for policy, identifier := range identifiers {
		note := fmt.Sprintf("User %q reset the counters of identifier %q on %d of %d replicas of Limiter %s/%s: %s",
			user, identifier, done, len(replicas), of.Namespace, of.Name, request.Reason)
		err := h.createEvent(ctx, of, policy, note)
		h.Log.Warn("counters reset", "policy", policy, "identifier", identifier, "limiter", of.Namespace+"/"+of.Name,
			"replicas", done, "of", len(replicas), "caller", user, "reason", request.Reason, "error", err)
	}
}

// identifiersByPolicy returns the identifier of each policy that was reset, and the number of replicas that have reset it.
func identifiersByPolicy(named string, replicas []Replica) (identifiers map[string]string, done int) {
	identifiers = map[string]string{}
	for i := range replicas {
		var result resetResult
		if replicas[i].Status != http.StatusOK || json.Unmarshal(replicas[i].Body, &result) != nil {
			continue
		}
		done++
		if named != "" && result.Identifier != "" {
			identifiers[named] = result.Identifier
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
	return h.Client.Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: "weir-reset-", Namespace: namespace},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "weir-operator", ReportingInstance: "weir-operator",
		Type: corev1.EventTypeNormal, Reason: "Reset", Action: "Reset", Note: limiterevents.CutNote(note),
		Regarding: regarding,
		Related: &corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Limiter", Namespace: of.Namespace, Name: of.Name, UID: of.UID,
		},
	})
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
