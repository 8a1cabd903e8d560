package adminproxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/limiterevents"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// createEvent creates an event on the policy with this name in rule sets: "namespace/name", or "_cluster/name" of a
// ClusterRateLimitPolicy.
func (h *handler) createEvent(ctx context.Context, of *v1alpha1.Limiter, policy, reason, note string) error {
	regarding, namespace, err := h.policy(ctx, policy)
	if err != nil {
		return err
	}
	return h.createEventOn(ctx, of, regarding, namespace, reason, note)
}

func (h *handler) createEventOn(
	ctx context.Context, of *v1alpha1.Limiter, regarding corev1.ObjectReference, namespace, reason, note string,
) error {
	related := limiterReference(of)
	return h.Client.Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: "weir-" + strings.ToLower(reason) + "-", Namespace: namespace},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "weir-operator", ReportingInstance: "weir-operator",
		Type: corev1.EventTypeNormal, Reason: reason, Action: reason, Note: limiterevents.CutNote(note),
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
	namespace, name := policyname.Split(policy)
	key, kind, in := types.NamespacedName{Namespace: namespace, Name: name}, "RateLimitPolicy", namespace
	var object client.Object = &v1alpha1.RateLimitPolicy{}
	if namespace == policyname.Cluster {
		key, kind, in = types.NamespacedName{Name: name}, "ClusterRateLimitPolicy", metav1.NamespaceDefault
		object = &v1alpha1.ClusterRateLimitPolicy{}
	}
	if err := h.Client.Get(ctx, key, object); err != nil {
		return corev1.ObjectReference{}, "", fmt.Errorf("read policy %s: %w", policy, err)
	}
	return corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Namespace: key.Namespace, Name: name, UID: object.GetUID(),
	}, in, nil
}

// maxClipped is the number of bytes of a text of a user or a replica in the note of an event: the reason must have room.
const maxClipped = 100

func clip(text string) string {
	if len(text) <= maxClipped {
		return text
	}
	return strings.ToValidUTF8(text[:maxClipped], "") + "…"
}
