package policy

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/internal/compile"
)

// validator judges policies of one kind when they are written.
type validator[P client.Object] struct {
	kind schema.GroupKind
	// spec is what of a policy is judged.
	spec func(P) any
	// judge compiles a policy beside those that are stored.
	judge func(context.Context, P) judgement
}

// judgement is what there is to say about one policy. With a problem it cannot be enforced.
type judgement struct {
	problems []compile.Problem
	warnings []string
}

// ValidateCreate refuses what cannot be enforced.
func (v validator[P]) ValidateCreate(ctx context.Context, policy P) (admission.Warnings, error) {
	found := v.judge(ctx, policy)
	return found.warnings, refusal(v.kind, policy.GetName(), found.problems)
}

// ValidateUpdate judges what changes the spec, and nothing else: a policy that was stored while nobody judged must still
// take labels and lose finalizers. The compiler has nothing to say of policies that are being deleted.
func (v validator[P]) ValidateUpdate(ctx context.Context, before, policy P) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(v.spec(before), v.spec(policy)) {
		return nil, nil
	}
	return v.ValidateCreate(ctx, policy)
}

// ValidateDelete lets every policy go.
func (validator[P]) ValidateDelete(context.Context, P) (admission.Warnings, error) { return nil, nil }
