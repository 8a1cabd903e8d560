package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// States of an attachment, in addition to the reasons of Envoy Gateway for which it does not accept a SecurityPolicy.
const (
	// Accepted means that Envoy Gateway has accepted the SecurityPolicy in this generation.
	Accepted = "Accepted"
	// Overridden means that it is accepted, but SecurityPolicies of routes or listeners replace it for their requests.
	Overridden = "Overridden"
	// Pending means that Envoy Gateway has not processed this generation.
	Pending = "Pending"
	// LimiterNotFound means that the Limiter does not exist.
	LimiterNotFound = "LimiterNotFound"
)

// Status is the state of an attachment.
type Status struct {
	Gateway        string `json:"gateway"`        // namespace/name
	Limiter        string `json:"limiter"`        // namespace/name
	SecurityPolicy string `json:"securityPolicy"` // namespace/name
	State          string `json:"state"`
	Message        string `json:"message,omitempty"`
}

// Healthy reports whether requests of the Gateway reach the Limiter, except those of overriding SecurityPolicies.
func (s *Status) Healthy() bool { return s.State == Accepted || s.State == Overridden }

// List returns the attachments of the Gateways in a namespace, or of all if it is empty, by Gateway.
func List(ctx context.Context, c client.Reader, namespace string) ([]Status, error) {
	policies, err := listPolicies(ctx, c, client.InNamespace(namespace), client.MatchingLabels{managedByLabel: manager})
	if err != nil {
		return nil, err
	}
	list := make([]Status, 0, len(policies))
	for i := range policies {
		s := statusOf(&policies[i])
		limiter, _ := limiterOf(&policies[i])
		// Users without the permission to read the Limiter see what Envoy Gateway reports.
		if apierrors.IsNotFound(c.Get(ctx, limiter, &v1alpha1.Limiter{})) {
			s.State, s.Message = LimiterNotFound, "detach the Gateway, or create the Limiter"
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Gateway, b.Gateway) })
	return list, nil
}

// Wait waits until Envoy Gateway has accepted the attachment of a Gateway, or until the timeout, and returns the last state.
func Wait(ctx context.Context, c client.Reader, gateway types.NamespacedName, timeout time.Duration) (Status, error) {
	var last Status
	var failed error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		policy := emptyObject(policyKind(), policyKey(gateway))
		if failed = c.Get(ctx, policyKey(gateway), policy); failed != nil {
			return false, nil //nolint:nilerr // the timeout ends the wait, and failed is returned
		}
		last = statusOf(policy)
		return last.Healthy(), nil
	})
	if err != nil && failed != nil {
		return last, fmt.Errorf("read SecurityPolicy %s: %w", policyKey(gateway), failed)
	}
	return last, nil
}

// statusOf returns the state that Envoy Gateway reports for a SecurityPolicy.
func statusOf(policy *unstructured.Unstructured) Status {
	limiter, _ := limiterOf(policy)
	s := Status{
		Limiter: limiter.String(), SecurityPolicy: client.ObjectKeyFromObject(policy).String(),
		State: Pending, Message: "Envoy Gateway has not processed it: check that Envoy Gateway runs, and that the class of the Gateway is its class",
	}
	for _, target := range targets(policy) {
		s.Gateway = fmt.Sprintf("%s/%v", policy.GetNamespace(), target["name"])
	}
	ancestors, _, _ := unstructured.NestedSlice(policy.Object, "status", "ancestors") // the schema has checked it
	for _, item := range ancestors {
		var ancestor struct {
			Conditions []metav1.Condition `json:"conditions"`
		}
		fields, ok := item.(map[string]any)
		if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &ancestor) != nil {
			continue
		}
		for _, condition := range ancestor.Conditions {
			if condition.ObservedGeneration == policy.GetGeneration() {
				s.add(&condition)
			}
		}
	}
	return s
}

// add adds a condition of the current generation.
func (s *Status) add(condition *metav1.Condition) {
	isTrue := condition.Status == metav1.ConditionTrue
	switch {
	case condition.Type == "Accepted" && !isTrue:
		s.State, s.Message = condition.Reason, condition.Message
	case condition.Type == "Accepted" && s.State == Pending:
		s.State, s.Message = Accepted, ""
	case condition.Type == "Overridden" && isTrue && (s.State == Pending || s.State == Accepted):
		s.State, s.Message = Overridden, condition.Message
	}
}
