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
)

// checkBudgets returns for each Limiter that selects the policy why it does not fit its budget. The policy must be rejected if no
// Limiter has room for it. A policy that uses no more than its stored version fits.
func (c Config) checkBudgets(ctx context.Context, one compile.Policies) (refusals []string, rejected bool, err error) {
	var limiters v1alpha1.LimiterList
	if err := c.Stored.List(ctx, &limiters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list Limiters: %w", err)
	}
	if len(limiters.Items) == 0 {
		return nil, false, nil
	}
	all, err := c.all(ctx)
	if err != nil {
		return nil, false, err
	}
	one.Namespaces = all.Namespaces
	selecting := 0
	for i := range limiters.Items {
		l := &limiters.Items[i]
		mine, err := one.SelectedBy(&l.Spec)
		if err != nil || len(mine.Namespaced)+len(mine.Cluster) == 0 {
			continue // an invalid selector keeps the previous selection
		}
		others, err := all.SelectedBy(&l.Spec)
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

// all lists all stored policies, and the namespaces, by whose labels Limiters select.
func (c Config) all(ctx context.Context) (compile.Policies, error) {
	var namespaced v1alpha1.RateLimitPolicyList
	var cluster v1alpha1.ClusterRateLimitPolicyList
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	for _, list := range []client.ObjectList{&namespaced, &cluster, &namespaces} {
		if err := c.Stored.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return compile.Policies{}, fmt.Errorf("list policies and namespaces: %w", err)
		}
	}
	all := compile.Policies{Namespaced: namespaced.Items, Cluster: cluster.Items}
	for i := range namespaces.Items {
		all.Namespaces = append(all.Namespaces, compile.Namespace{Name: namespaces.Items[i].Name, Labels: namespaces.Items[i].Labels})
	}
	return all, nil
}

// refusal returns why the Limiter, with the others as stored, would leave out the policy, or one that it enforces; empty if the policy fits.
// ClusterRateLimitPolicies can displace namespaced ones. What the operator leaves out anyway is no obstacle for other policies.
func (c Config) refusal(one, others compile.Policies, l *v1alpha1.Limiter) string {
	identity, limits := compile.IdentityOf(&l.Spec), budget.ForLimiter(&l.Spec)
	own := chargeOf(one, one.Usage(identity))
	stored := c.charges(others, identity)
	at := slices.IndexFunc(stored, func(s budget.Charge) bool { return s.Policy == own.Policy && s.Cluster == own.Cluster })
	after, before := slices.Clone(stored), budget.Usage{}
	if at >= 0 {
		before, after[at] = stored[at].Usage, own
	} else {
		at, after = len(after), append(after, own)
	}
	_, over := limits.Fit(after)
	excess, found := find(over, at)
	if !found {
		_, overBefore := limits.Fit(stored)
		excess, found = displaced(over, overBefore, after, own.Cluster)
	}
	if !found {
		return ""
	}
	of := "all policies need"
	if excess.Part == "perNamespace" {
		of = "namespace " + after[excess.Index].Namespace + " needs"
	}
	return exceeded(own.Usage, before, excess.Sum, excess.Limits, of, client.ObjectKeyFromObject(l).String(), excess.Part)
}

// charges returns what the policies use.
func (c Config) charges(all compile.Policies, identity compile.Identity) []budget.Charge {
	charges := make([]budget.Charge, 0, len(all.Namespaced)+len(all.Cluster)+1)
	for i := range all.Namespaced {
		one := compile.Policies{Namespaced: all.Namespaced[i : i+1]}
		charges = append(charges, chargeOf(one, c.usages.of(&all.Namespaced[i], one, identity)))
	}
	for i := range all.Cluster {
		one := compile.Policies{Cluster: all.Cluster[i : i+1]}
		charges = append(charges, chargeOf(one, c.usages.of(&all.Cluster[i], one, identity)))
	}
	return charges
}

func chargeOf(one compile.Policies, usage budget.Usage) budget.Charge {
	if len(one.Cluster) > 0 {
		return budget.Charge{Policy: nameOf(one), Cluster: true, Created: one.Cluster[0].CreationTimestamp.Time, Usage: usage}
	}
	p := &one.Namespaced[0]
	return budget.Charge{Policy: nameOf(one), Namespace: p.Namespace, Created: p.CreationTimestamp.Time, Usage: usage}
}

// find returns the excess of the policy with that index.
func find(over []budget.Excess, index int) (budget.Excess, bool) {
	at := slices.IndexFunc(over, func(e budget.Excess) bool { return e.Index == index })
	if at < 0 {
		return budget.Excess{}, false
	}
	return over[at], true
}

// displaced returns the first excess of a policy of that scope that did not exceed the budget before.
func displaced(over, before []budget.Excess, all []budget.Charge, cluster bool) (budget.Excess, bool) {
	already := make(map[int]bool, len(before))
	for _, e := range before {
		already[e.Index] = true
	}
	at := slices.IndexFunc(over, func(e budget.Excess) bool { return all[e.Index].Cluster == cluster && !already[e.Index] })
	if at < 0 {
		return budget.Excess{}, false
	}
	return over[at], true
}

func exceeded(own, before, sum, limits budget.Usage, of, limiter, part string) string {
	for i, limit := range limits.Amounts() {
		if limit.Used == 0 || sum.Amounts()[i].Used <= limit.Used || own.Amounts()[i].Used <= before.Amounts()[i].Used {
			continue
		}
		return fmt.Sprintf("with this policy, %s %d %s, and the policy budget of Limiter %s is %d (this policy: %d): "+
			"shorten or delete policies, or raise spec.policyBudget.%s.%s of the Limiter",
			of, sum.Amounts()[i].Used, limit.Name, limiter, limit.Used, own.Amounts()[i].Used, part, limit.Name)
	}
	return ""
}

// usages remembers what stored policies use: to compile all of them again for each write would take too long. A nil usages
// remembers nothing.
type usages struct {
	mu    sync.Mutex
	known map[usageKey]budget.Usage
}

type usageKey struct {
	policy     types.UID
	generation int64
	identity   compile.Identity
}

// maxUsages bounds the memory: beyond it, all are forgotten.
const maxUsages = 100_000

func (u *usages) of(p client.Object, one compile.Policies, identity compile.Identity) budget.Usage {
	if u == nil || p.GetUID() == "" {
		return one.Usage(identity)
	}
	key := usageKey{p.GetUID(), p.GetGeneration(), identity}
	u.mu.Lock()
	defer u.mu.Unlock()
	usage, ok := u.known[key]
	if !ok {
		if u.known == nil || len(u.known) >= maxUsages {
			u.known = map[usageKey]budget.Usage{}
		}
		usage = one.Usage(identity)
		u.known[key] = usage
	}
	return usage
}
