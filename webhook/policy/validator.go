package policy

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/internal/compile"
)

// validator validates policies of one kind when a client writes them.
type validator[P client.Object] struct {
	kind schema.GroupKind
	// spec returns the spec of a policy.
	spec func(P) any
	// validate compiles a policy together with the stored policies.
	validate func(context.Context, P) verdict
	// checkBudget checks only whether Limiters have room for a policy.
	checkBudget func(context.Context, P) verdict
}

// verdict has the problems and the warnings of one policy. A policy with a problem is rejected.
type verdict struct {
	problems []compile.Problem
	warnings []string
}

// ValidateCreate rejects an invalid policy.
func (v validator[P]) ValidateCreate(ctx context.Context, policy P) (admission.Warnings, error) {
	found := v.validate(ctx, policy)
	return found.warnings, invalidError(v.kind, policy.GetName(), found.problems)
}

// ValidateUpdate validates a policy only if its spec changes. Clients must be able to change the labels and finalizers of an invalid policy
// that was stored while the webhook was unavailable. The compiler ignores policies that are being deleted. Labels decide which Limiters
// select the policy, so a change of them requires room in their budgets.
func (v validator[P]) ValidateUpdate(ctx context.Context, previous, policy P) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(v.spec(previous), v.spec(policy)) {
		if maps.Equal(previous.GetLabels(), policy.GetLabels()) {
			return nil, nil
		}
		found := v.checkBudget(ctx, policy)
		return found.warnings, invalidError(v.kind, policy.GetName(), found.problems)
	}
	return v.ValidateCreate(ctx, policy)
}

// ValidateDelete accepts every deletion.
func (validator[P]) ValidateDelete(context.Context, P) (admission.Warnings, error) { return nil, nil }
