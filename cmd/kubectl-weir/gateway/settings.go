package gateway

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Settings returns the settings of the attachment of a Gateway. attached is false if it is not attached. A setting that the SecurityPolicy does
// not have is zero: a nil FailOpen, a Timeout of 0.
func Settings(ctx context.Context, c client.Reader, gateway types.NamespacedName) (current Current, attached bool, err error) {
	policy := emptyObject(policyKind(), policyKey(gateway))
	switch err := c.Get(ctx, policyKey(gateway), policy); {
	case meta.IsNoMatchError(err):
		return Current{}, false, missingKind(policyKind().Kind)
	case apierrors.IsNotFound(err):
		return Current{}, false, nil
	case err != nil:
		return Current{}, false, fmt.Errorf("read SecurityPolicy %s: %w", policyKey(gateway), err)
	}
	limiter, managed := limiterOf(policy)
	if !managed || limiter.Name == "" || limiter.Namespace == "" {
		return Current{}, false, nil
	}
	current.Limiter = limiter
	_, current.ExtAuth, _ = unstructured.NestedMap(policy.Object, "spec", "extAuth")
	if failOpen, found, err := unstructured.NestedBool(policy.Object, "spec", "extAuth", "failOpen"); found && err == nil {
		current.FailOpen = &failOpen
	}
	text, _, _ := unstructured.NestedString(policy.Object, "spec", "extAuth", "timeout") // the schema has checked it
	current.Timeout, _ = time.ParseDuration(text)
	return current, true, nil
}

// Current are the settings of an attachment.
type Current struct {
	Limiter types.NamespacedName
	// ExtAuth is whether the SecurityPolicy has the settings of a call, of which FailOpen and Timeout are two.
	ExtAuth  bool
	FailOpen *bool
	Timeout  time.Duration
}
