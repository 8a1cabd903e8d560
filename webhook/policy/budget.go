package policy

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
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

// refusal returns why the policy does not fit the budget of the Limiter together with the others; empty if it fits.
func (c Config) refusal(one, others compile.Policies, l *v1alpha1.Limiter) string {
	identity, budget := compile.IdentityOf(&l.Spec), compile.BudgetOf(&l.Spec)
	own := one.Usage(identity)
	var before, namespace, total compile.Usage // of the stored version, and of all other policies
	for i := range others.Namespaced {
		p := &others.Namespaced[i]
		usage := c.usages.of(p, compile.Policies{Namespaced: others.Namespaced[i : i+1]}, identity)
		switch {
		case len(one.Namespaced) > 0 && compile.Name(p) == nameOf(one):
			before = usage
			continue
		case len(one.Namespaced) > 0 && p.Namespace == one.Namespaced[0].Namespace:
			namespace = namespace.Add(usage)
		}
		total = total.Add(usage)
	}
	for i := range others.Cluster {
		p := &others.Cluster[i]
		usage := c.usages.of(p, compile.Policies{Cluster: others.Cluster[i : i+1]}, identity)
		if len(one.Cluster) > 0 && compile.ClusterName(p) == nameOf(one) {
			before = usage
			continue
		}
		total = total.Add(usage)
	}
	limiter := client.ObjectKeyFromObject(l).String()
	if len(one.Namespaced) > 0 {
		of := "namespace " + one.Namespaced[0].Namespace + " needs"
		if refusal := exceeded(own, before, namespace.Add(own), budget.PerNamespace, of, limiter, "perNamespace"); refusal != "" {
			return refusal
		}
	}
	return exceeded(own, before, total.Add(own), budget.Total, "all policies need", limiter, "total")
}

func exceeded(own, before, sum, limits compile.Usage, of, limiter, part string) string {
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
	known map[usageKey]compile.Usage
}

type usageKey struct {
	policy     types.UID
	generation int64
	identity   compile.Identity
}

// maxUsages bounds the memory: beyond it, all are forgotten.
const maxUsages = 100_000

func (u *usages) of(p client.Object, one compile.Policies, identity compile.Identity) compile.Usage {
	if u == nil || p.GetUID() == "" {
		return one.Usage(identity)
	}
	key := usageKey{p.GetUID(), p.GetGeneration(), identity}
	u.mu.Lock()
	defer u.mu.Unlock()
	usage, ok := u.known[key]
	if !ok {
		if u.known == nil || len(u.known) >= maxUsages {
			u.known = map[usageKey]compile.Usage{}
		}
		usage = one.Usage(identity)
		u.known[key] = usage
	}
	return usage
}
