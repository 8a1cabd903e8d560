package policy

import (
	"context"
	"fmt"
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

// compile compiles one policy together with the stored cluster-scoped policies and those of the namespace, if it is not empty.
func (c Config) compile(ctx context.Context, one stored.Policies, namespace string) verdict {
	others, err := c.others(ctx, namespace)
	if err == nil {
		found := compileWith(one, others, c.Identity)
		if len(found.problems) == 0 {
			c.addBudgets(ctx, one, &found)
		}
		return found
	}
	// Rejecting the policy would block all users because of an internal error. Problems of the policy itself do not depend on others.
	log.FromContext(ctx).Error(err, "Validated a policy without the other policies, because they could not be read", "policy", nameOf(one))
	found := compileWith(one, stored.Policies{}, c.Identity)
	found.warnings = append(found.warnings, warnOthersUnavailable)
	return found
}

// addBudgets adds a problem if no Limiter has room for the policy, and otherwise a warning for each Limiter without room.
func (c Config) addBudgets(ctx context.Context, one stored.Policies, found *verdict) {
	refusals, rejected, err := c.checkBudgets(ctx, one)
	if err != nil { // the operator applies the budget to the stored policy
		log.FromContext(ctx).Error(err, "Validated a policy without the budgets of the Limiters", "policy", nameOf(one))
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

// others lists the stored policies. The caller must not modify them, because the cache owns them.
func (c Config) others(ctx context.Context, namespace string) (stored.Policies, error) {
	var cluster v1alpha1.ClusterRateLimitPolicyList
	if err := c.Stored.List(ctx, &cluster, client.UnsafeDisableDeepCopy); err != nil {
		return stored.Policies{}, fmt.Errorf("list ClusterRateLimitPolicies: %w", err)
	}
	if namespace == "" {
		return stored.Policies{Cluster: stored.Pointers(cluster.Items)}, nil
	}
	var namespaced v1alpha1.RateLimitPolicyList
	if err := c.Stored.List(ctx, &namespaced, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return stored.Policies{}, fmt.Errorf("list RateLimitPolicies in namespace %s: %w", namespace, err)
	}
	return stored.Policies{Namespaced: stored.Pointers(namespaced.Items), Cluster: stored.Pointers(cluster.Items)}, nil
}

// compileWith compiles one policy together with others. The others may contain the stored version of the policy, which is ignored.
func compileWith(one, others stored.Policies, identity compile.Identity) verdict {
	name := nameOf(one)
	for i := range others.Namespaced {
		if stored.Name(others.Namespaced[i]) != name {
			one.Namespaced = append(one.Namespaced, others.Namespaced[i])
		}
	}
	for i := range others.Cluster {
		if stored.ClusterName(others.Cluster[i]) != name {
			one.Cluster = append(one.Cluster, others.Cluster[i])
		}
	}
	result := one.Compile(identity)
	found := verdict{problems: slices.DeleteFunc(result.Problems, func(p compile.Problem) bool {
		return p.Policy != name
	})}
	// During a rename, both policies exist for some time.
	found.problems = slices.DeleteFunc(found.problems, func(p compile.Problem) bool {
		if p.Reason == v1alpha1.ReasonConflicted {
			found.warnings = append(found.warnings, truncate("not enforced yet: "+p.Message))
		}
		return p.Reason == v1alpha1.ReasonConflicted
	})
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
