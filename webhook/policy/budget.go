package policy

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/stored"
)

// checkBudgets returns for each Limiter that selects the policy why it does not fit its budget. The policy must be rejected if no
// Limiter has room for it. A policy that uses no more than its stored version fits.
func (c Config) checkBudgets(ctx context.Context, one stored.Policies) (refusals []string, rejected bool, err error) {
	var limiters v1alpha1.LimiterList
	if err := c.Stored.List(ctx, &limiters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list Limiters: %w", err)
	}
	if len(limiters.Items) == 0 {
		return nil, false, nil
	}
	stored, err := c.storedPolicies(ctx)
	if err != nil {
		return nil, false, err
	}
	one.Namespaces = stored.Namespaces
	selecting := 0
	for i := range limiters.Items {
		l := &limiters.Items[i]
		mine, err := one.SelectedBy(&l.Spec)
		if err != nil || len(mine.Namespaced)+len(mine.Cluster) == 0 {
			continue // an invalid selector keeps the previous selection
		}
		others, err := stored.SelectedBy(&l.Spec)
		if err != nil {
			continue
		}
		selecting++
		if refusal := c.refusal(one, others, l); refusal != "" {
			refusals = append(refusals, refusal)
		}
	}
	return refusals, selecting > 0 && len(refusals) == selecting, nil
}

// storedPolicies lists all stored policies, and the namespaces, by whose labels Limiters select.
func (c Config) storedPolicies(ctx context.Context) (stored.Policies, error) {
	var namespaced v1alpha1.RateLimitPolicyList
	var cluster v1alpha1.ClusterRateLimitPolicyList
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	for _, list := range []client.ObjectList{&namespaced, &cluster, &namespaces} {
		if err := c.Stored.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return stored.Policies{}, fmt.Errorf("list policies and namespaces: %w", err)
		}
	}
	policies := stored.Policies{Namespaced: stored.Pointers(namespaced.Items), Cluster: stored.Pointers(cluster.Items)}
	for i := range namespaces.Items {
		policies.Namespaces = append(policies.Namespaces, compile.Namespace{Name: namespaces.Items[i].Name, Labels: namespaces.Items[i].Labels})
	}
	return policies, nil
}

// refusal returns why the Limiter, with the others as stored, would leave out the policy, or one that it enforces; empty if the policy fits.
// ClusterRateLimitPolicies can displace namespaced ones. What the operator leaves out anyway is no obstacle for other policies.
func (c Config) refusal(one, others stored.Policies, l *v1alpha1.Limiter) string {
	identity, limits := stored.IdentityOf(&l.Spec), stored.BudgetOf(&l.Spec)
	own := chargeOf(one, one.Usage(identity))
	stored := c.charges(others, identity)
	index := slices.IndexFunc(stored, func(s budget.Charge) bool { return s.Policy == own.Policy && s.Cluster == own.Cluster })
	charges, previous := slices.Clone(stored), budget.Usage{}
	if index >= 0 {
		previous, charges[index] = stored[index].Usage, own
	} else {
		index, charges = len(charges), append(charges, own)
	}
	_, excesses := limits.Fit(charges)
	excess, found := find(excesses, index)
	if !found {
		_, overBefore := limits.Fit(stored)
		excess, found = displaced(excesses, overBefore, charges, own.Cluster)
	}
	if !found {
		return ""
	}
	needs := "all policies need"
	if excess.Part == "perNamespace" {
		needs = "namespace " + charges[excess.Index].Namespace + " needs"
	}
	return exceeded(own.Usage, previous, excess.Sum, excess.Limits, needs, client.ObjectKeyFromObject(l).String(), excess.Part)
}

// charges returns what the policies use.
func (c Config) charges(policies stored.Policies, identity compile.Identity) []budget.Charge {
	charges := make([]budget.Charge, 0, len(policies.Namespaced)+len(policies.Cluster)+1)
	for i := range policies.Namespaced {
		one := stored.Policies{Namespaced: policies.Namespaced[i : i+1]}
		charges = append(charges, chargeOf(one, c.usages.usage(policies.Namespaced[i], one, identity)))
	}
	for i := range policies.Cluster {
		one := stored.Policies{Cluster: policies.Cluster[i : i+1]}
		charges = append(charges, chargeOf(one, c.usages.usage(policies.Cluster[i], one, identity)))
	}
	return charges
}

func chargeOf(one stored.Policies, usage budget.Usage) budget.Charge {
	if len(one.Cluster) > 0 {
		return budget.Charge{Policy: nameOf(one), Cluster: true, Created: one.Cluster[0].CreationTimestamp.Time, Usage: usage}
	}
	p := one.Namespaced[0]
	return budget.Charge{Policy: nameOf(one), Namespace: p.Namespace, Created: p.CreationTimestamp.Time, Usage: usage}
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
func displaced(excesses, previous []budget.Excess, charges []budget.Charge, cluster bool) (budget.Excess, bool) {
	already := make(map[int]bool, len(previous))
	for _, e := range previous {
		already[e.Index] = true
	}
	found := slices.IndexFunc(excesses, func(e budget.Excess) bool { return charges[e.Index].Cluster == cluster && !already[e.Index] })
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

// usages remembers what stored policies use: to compile all of them again for each write would take too long. A nil usages
// remembers nothing.
type usages struct {
	mu    sync.Mutex
	byKey map[usageKey]budget.Usage
}

type usageKey struct {
	policy     types.UID
	generation int64
	identity   compile.Identity
}

// maxUsages bounds the memory: beyond it, all are forgotten.
const maxUsages = 100_000

func (u *usages) usage(p client.Object, one stored.Policies, identity compile.Identity) budget.Usage {
	if u == nil || p.GetUID() == "" {
		return one.Usage(identity)
	}
	key := usageKey{p.GetUID(), p.GetGeneration(), identity}
	u.mu.Lock()
	defer u.mu.Unlock()
	usage, ok := u.byKey[key]
	if !ok {
		if u.byKey == nil || len(u.byKey) >= maxUsages {
			u.byKey = map[usageKey]budget.Usage{}
		}
		usage = one.Usage(identity)
		u.byKey[key] = usage
	}
	return usage
}
