package policy

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/budget"
)

// checkBudgets returns for each Limiter that selects the policy why it does not fit its budget. The policy must be rejected if no
// Limiter has room for it. A policy that uses no more than its stored version fits.
func (x *index) checkBudgets(ctx context.Context, policy *entry) (refusals []string, rejected bool, err error) {
	var limiters v1alpha1.LimiterList
	if err := x.cache.List(ctx, &limiters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list Limiters: %w", err)
	}
	if len(limiters.Items) > 0 {
		if err := x.follow(ctx); err != nil {
			return nil, false, err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	selecting := 0
	for i := range limiters.Items {
		limiter := &limiters.Items[i]
		l := x.ledger(limiter)
		if l == nil || !l.selects(policy.alone, x.namespaces) {
			continue
		}
		selecting++
		if refusal := l.refusal(policy, client.ObjectKeyFromObject(limiter).String()); refusal != "" {
			refusals = append(refusals, refusal)
		}
	}
	x.forget(limiters.Items)
	return refusals, selecting > 0 && len(refusals) == selecting, nil
}

// find returns the excess of the policy with that index.
func find(excesses []budget.Excess, index int) (budget.Excess, bool) {
	found := slices.IndexFunc(excesses, func(e budget.Excess) bool { return e.Index == index })
	if found < 0 {
		return budget.Excess{}, false
	}
	return excesses[found], true
}

// displaced returns the first excess of a policy of that scope that did not exceed the budget before.
func displaced(excesses []budget.Excess, charges []*budget.Charge, previous []budget.Excess, before []*budget.Charge, cluster bool) (budget.Excess, bool) {
	already := make(map[*budget.Charge]bool, len(previous))
	for _, e := range previous {
		already[before[e.Index]] = true
	}
	found := slices.IndexFunc(excesses, func(e budget.Excess) bool { return charges[e.Index].Cluster == cluster && !already[charges[e.Index]] })
	if found < 0 {
		return budget.Excess{}, false
	}
	return excesses[found], true
}

func exceeded(own, previous, sum, limits budget.Usage, needs, limiter, part string) string {
	for i, limit := range limits.Amounts() {
		if limit.Used == 0 || sum.Amounts()[i].Used <= limit.Used || own.Amounts()[i].Used <= previous.Amounts()[i].Used {
			continue
		}
		return fmt.Sprintf("with this policy, %s %d %s, and the policy budget of Limiter %s is %d (this policy: %d): "+
			"shorten or delete policies, or raise spec.policyBudget.%s.%s of the Limiter",
			needs, sum.Amounts()[i].Used, limit.Name, limiter, limit.Used, own.Amounts()[i].Used, part, limit.Name)
	}
	return ""
}
