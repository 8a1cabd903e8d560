package policy

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/stored"
)

// reference validates a policy without an index: it lists and compiles all policies, for each policy that is validated. It is what an index must agree with.
type reference struct {
	cache     Cache
	identity  compile.Identity
	displaced func() // called for a policy that fits, and displaces another one
}

func (r reference) compile(ctx context.Context, one stored.Policies, namespace string) verdict {
	all, err := r.stored(ctx)
	if err != nil {
		return verdict{warnings: []string{err.Error()}}
	}
	others := stored.Policies{Cluster: all.Cluster}
	for _, p := range all.Namespaced {
		if p.Namespace == namespace {
			others.Namespaced = append(others.Namespaced, p)
		}
	}
	found := compileWith(one, others, r.identity)
	if len(found.problems) == 0 {
		r.addBudgets(ctx, one, &found)
	}
	return found
}

// compileWith compiles one policy together with others. The others may contain the stored version of the policy, which is ignored.
func compileWith(one, others stored.Policies, identity compile.Identity) verdict {
	name, together := nameOf(one), one
	for i := range others.Namespaced {
		if stored.Name(others.Namespaced[i]) != name {
			together.Namespaced = append(together.Namespaced, others.Namespaced[i])
		}
	}
	for i := range others.Cluster {
		if stored.ClusterName(others.Cluster[i]) != name {
			together.Cluster = append(together.Cluster, others.Cluster[i])
		}
	}
	result := together.Compile(identity)
	return verdictOf(one, &result)
}

func (r reference) addBudgets(ctx context.Context, one stored.Policies, found *verdict) {
	refusals, rejected, err := r.checkBudgets(ctx, one)
	if err != nil {
		found.warnings = append(found.warnings, err.Error())
	}
	for i, refusal := range refusals {
		if rejected && i == 0 {
			found.problems = append(found.problems, compile.Problem{Field: "spec", Message: refusal})
		} else if len(found.warnings) < warningCount {
			found.warnings = append(found.warnings, truncate(refusal))
		}
	}
}

func (r reference) checkBudgets(ctx context.Context, one stored.Policies) (refusals []string, rejected bool, err error) {
	var limiters v1alpha1.LimiterList
	if err := r.cache.List(ctx, &limiters); err != nil {
		return nil, false, err
	}
	all, err := r.stored(ctx)
	if err != nil {
		return nil, false, err
	}
	one.Namespaces = all.Namespaces
	selecting := 0
	for i := range limiters.Items {
		l := &limiters.Items[i]
		mine, err := one.SelectedBy(&l.Spec)
		if err != nil || len(mine.Namespaced)+len(mine.Cluster) == 0 {
			continue
		}
		others, err := all.SelectedBy(&l.Spec)
		if err != nil {
			continue
		}
		selecting++
		if refusal := r.refusal(one, others, l); refusal != "" {
			refusals = append(refusals, refusal)
		}
	}
	return refusals, selecting > 0 && len(refusals) == selecting, nil
}

func (r reference) stored(ctx context.Context) (stored.Policies, error) {
	var namespaced v1alpha1.RateLimitPolicyList
	var cluster v1alpha1.ClusterRateLimitPolicyList
	var namespaces metav1.PartialObjectMetadataList
	for _, list := range []client.ObjectList{&namespaced, &cluster, &namespaces} {
		if err := r.cache.List(ctx, list); err != nil {
			return stored.Policies{}, fmt.Errorf("list policies and namespaces: %w", err)
		}
	}
	policies := stored.Policies{Namespaced: stored.Pointers(namespaced.Items), Cluster: stored.Pointers(cluster.Items)}
	for i := range namespaces.Items {
		policies.Namespaces = append(policies.Namespaces, compile.Namespace{Name: namespaces.Items[i].Name, Labels: namespaces.Items[i].Labels})
	}
	return policies, nil
}

func (r reference) refusal(one, others stored.Policies, l *v1alpha1.Limiter) string {
	identity, limits := stored.IdentityOf(&l.Spec), stored.BudgetOf(&l.Spec)
	own := referenceCharge(one, identity)
	var before []budget.Charge
	for i := range others.Namespaced {
		before = append(before, referenceCharge(stored.Policies{Namespaced: others.Namespaced[i : i+1]}, identity))
	}
	for i := range others.Cluster {
		before = append(before, referenceCharge(stored.Policies{Cluster: others.Cluster[i : i+1]}, identity))
	}
	index := slices.IndexFunc(before, func(s budget.Charge) bool { return s.Policy == own.Policy && s.Cluster == own.Cluster })
	charges, previous := slices.Clone(before), budget.Usage{}
	if index >= 0 {
		previous, charges[index] = before[index].Usage, own
	} else {
		index, charges = len(charges), append(charges, own)
	}
	_, excesses := limits.Fit(charges)
	excess, found := find(excesses, index)
	if !found {
		_, overBefore := limits.Fit(before)
		already := map[int]bool{}
		for _, e := range overBefore {
			already[e.Index] = true
		}
		for _, e := range excesses {
			if !found && charges[e.Index].Cluster == own.Cluster && !already[e.Index] {
				excess, found = e, true
			}
		}
	}
	if !found {
		return ""
	}
	needs := "all policies need"
	if excess.Part == "perNamespace" {
		needs = "namespace " + charges[excess.Index].Namespace + " needs"
	}
	if text := exceeded(own.Usage, previous, excess.Sum, excess.Limits, "", "", excess.Part); text != "" && excess.Index != index {
		r.displaced()
	}
	return exceeded(own.Usage, previous, excess.Sum, excess.Limits, needs, client.ObjectKeyFromObject(l).String(), excess.Part)
}

func referenceCharge(one stored.Policies, identity compile.Identity) budget.Charge {
	usage := one.Usage(identity)
	if len(one.Cluster) > 0 {
		return budget.Charge{Policy: nameOf(one), Cluster: true, Created: one.Cluster[0].CreationTimestamp.Time, Usage: usage}
	}
	return budget.Charge{Policy: nameOf(one), Namespace: one.Namespaced[0].Namespace, Created: one.Namespaced[0].CreationTimestamp.Time, Usage: usage}
}
