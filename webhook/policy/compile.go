package policy

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/warning"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

const warnOthersUnavailable = "Weir could not read the other policies and validated this policy without them"

// compile compiles one policy together with the stored policies on which its verdict depends.
func (x *index) compile(ctx context.Context, object client.Object) verdict {
	one := newEntry(object, x.identity)
	if err := x.follow(ctx); err != nil {
		// Rejecting the policy would block all users because of an internal error. Problems of the policy itself do not depend on others.
		log.FromContext(ctx).Error(err, "Validated a policy without the other policies, because they could not be read", "policy", nameOf(one.alone))
		found := verdictOf(one.alone, &one.result)
		found.warnings = append(found.warnings, warnOthersUnavailable)
		return found
	}
	result := one.result
	if others := x.relevant(one); len(others.Namespaced)+len(others.Cluster) > 0 {
		together := stored.Policies{
			Namespaced: slices.Concat(one.alone.Namespaced, others.Namespaced), Cluster: slices.Concat(one.alone.Cluster, others.Cluster),
		}
		result = together.Compile(x.identity)
	}
	found := verdictOf(one.alone, &result)
	if len(found.problems) == 0 {
		x.addBudgets(ctx, one, &found)
	}
	return found
}

// addBudgets adds a problem if no Limiter has room for the policy, and otherwise a warning for each Limiter without room.
func (x *index) addBudgets(ctx context.Context, one *entry, found *verdict) {
	refusals, rejected, err := x.checkBudgets(ctx, one)
	if err != nil { // the operator applies the budget to the stored policy
		log.FromContext(ctx).Error(err, "Validated a policy without the budgets of the Limiters", "policy", nameOf(one.alone))
		return
	}
	for i, refusal := range refusals {
		if rejected && i == 0 {
			found.problems = append(found.problems, compile.Problem{Field: "spec", Message: refusal}) // the rest is for the status of a policy
		} else if len(found.warnings) < warningCount {
			found.warnings = append(found.warnings, truncate(refusal))
		}
	}
}

// verdictOf returns the problems and the warnings of one of the policies that were compiled.
func verdictOf(one stored.Policies, result *compile.Result) verdict {
	name := nameOf(one)
	var found verdict
	for _, p := range result.Problems {
		switch {
		case p.Policy != name:
		case p.Reason == v1alpha1.ReasonConflicted: // during a rename, both policies exist for some time
			found.warnings = append(found.warnings, truncate("not enforced yet: "+p.Message))
		default:
			found.problems = append(found.problems, p)
		}
	}
	for policy, own := range result.Set.Policies() {
		if policy == name {
			all := func(*rules.Rule) []rules.Rule { return result.Set.Rules }
			found.warnings = limitWarnings(slices.Concat(warning.ForPolicy(own, all), warning.ForSpec(&own[0], specOf(one))))
		}
	}
	return found
}

// specOf returns the spec of the first policy.
func specOf(one stored.Policies) *v1alpha1.RateLimitPolicySpec {
	if len(one.Cluster) > 0 {
		return &one.Cluster[0].Spec.RateLimitPolicySpec
	}
	return &one.Namespaced[0].Spec
}

// nameOf returns the name of the single policy.
func nameOf(one stored.Policies) string {
	if len(one.Cluster) > 0 {
		return stored.ClusterName(one.Cluster[0])
	}
	return stored.Name(one.Namespaced[0])
}
