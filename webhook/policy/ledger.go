package policy

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/stored"
)

// ledger has what the policies that a Limiter selects use of its budget, and the sums.
type ledger struct {
	uid        types.UID
	generation int64
	spec       *v1alpha1.LimiterSpec // read-only
	identity   compile.Identity
	limits     budget.Budget

	charges map[types.NamespacedName]*budget.Charge
	ordered []*budget.Charge // in order of precedence
	// The sums include the policies that do not fit.
	total       budget.Usage
	inNamespace map[string]budget.Usage
}

// ledger returns the ledger of a Limiter, nil if its selectors are invalid: then it keeps its previous selection, which the webhook does not know. It
// charges all policies if the spec of the Limiter is another one than in the last call.
func (x *index) ledger(limiter *v1alpha1.Limiter) *ledger {
	key := client.ObjectKeyFromObject(limiter)
	if l := x.ledgers[key]; l != nil && l.uid == limiter.UID && l.generation == limiter.Generation {
		return l
	}
	l := &ledger{
		uid: limiter.UID, generation: limiter.Generation, spec: &limiter.Spec, identity: stored.IdentityOf(&limiter.Spec),
		limits: stored.BudgetOf(&limiter.Spec), charges: map[types.NamespacedName]*budget.Charge{}, inNamespace: map[string]budget.Usage{},
	}
	delete(x.ledgers, key)
	if _, err := (stored.Policies{}).SelectedBy(l.spec); err != nil { // before all policies are listed
		return nil
	}
	var all stored.Policies
	for _, s := range x.scopes {
		for _, e := range s.policies {
			all.Namespaced, all.Cluster = append(all.Namespaced, e.alone.Namespaced...), append(all.Cluster, e.alone.Cluster...)
		}
	}
	all.Namespaces = slices.Collect(maps.Values(x.namespaces))
	selected, err := all.SelectedBy(l.spec)
	if err != nil {
		return nil
	}
	for i := range selected.Namespaced {
		l.add(x.find(client.ObjectKeyFromObject(selected.Namespaced[i])))
	}
	for i := range selected.Cluster {
		l.add(x.find(client.ObjectKeyFromObject(selected.Cluster[i])))
	}
	slices.SortFunc(l.ordered, (*budget.Charge).Compare)
	x.ledgers[key] = l
	return l
}

// forget forgets what only Limiters needed that do not exist any more, or that have another identity table.
func (x *index) forget(limiters []v1alpha1.Limiter) {
	identities := map[compile.Identity]bool{x.identity: true}
	keys := map[types.NamespacedName]bool{}
	for i := range limiters {
		keys[client.ObjectKeyFromObject(&limiters[i])] = true
	}
	maps.DeleteFunc(x.ledgers, func(key types.NamespacedName, _ *ledger) bool { return !keys[key] })
	for _, l := range x.ledgers {
		identities[l.identity] = true
	}
	if maps.Equal(identities, x.identities) {
		return
	}
	x.identities = identities
	for _, s := range x.scopes {
		for _, e := range s.policies {
			maps.DeleteFunc(e.usages, func(identity compile.Identity, _ budget.Usage) bool { return !identities[identity] })
		}
	}
}

// readsNamespaces reports whether the Limiter selects policies by the labels of their namespaces.
func (l *ledger) readsNamespaces() bool {
	throttle := l.spec.KubernetesThrottle
	return l.spec.PolicyNamespaceSelector != nil || throttle != nil && throttle.NamespacedPolicySelector != nil
}

// selects reports whether the Limiter selects a policy.
func (l *ledger) selects(policy stored.Policies, namespaces map[string]compile.Namespace) bool {
	for _, p := range policy.Namespaced {
		if n, exists := namespaces[p.Namespace]; exists {
			policy.Namespaces = []compile.Namespace{n}
		}
	}
	selected, err := policy.SelectedBy(l.spec)
	return err == nil && len(selected.Namespaced)+len(selected.Cluster) > 0
}

// set changes what a policy is charged. The policy is nil if it was deleted.
func (l *ledger) set(key types.NamespacedName, e *entry, namespaces map[string]compile.Namespace) {
	if before := l.charges[key]; before != nil {
		at, _ := slices.BinarySearchFunc(l.ordered, before, (*budget.Charge).Compare)
		l.ordered = slices.Delete(l.ordered, at, at+1)
		delete(l.charges, key)
		l.total = l.total.Minus(before.Usage)
		if rest := l.inNamespace[before.Namespace].Minus(before.Usage); rest == (budget.Usage{}) {
			delete(l.inNamespace, before.Namespace)
		} else {
			l.inNamespace[before.Namespace] = rest
		}
	}
	if e == nil || !l.selects(e.alone, namespaces) {
		return
	}
	c := l.add(e)
	at, _ := slices.BinarySearchFunc(l.ordered[:len(l.ordered)-1], c, (*budget.Charge).Compare)
	copy(l.ordered[at+1:], l.ordered[at:])
	l.ordered[at] = c
}

// add charges a policy. It comes last in l.ordered.
func (l *ledger) add(e *entry) *budget.Charge {
	c := chargeOf(e, l.identity)
	l.charges[e.key], l.ordered = c, append(l.ordered, c)
	l.total, l.inNamespace[c.Namespace] = l.total.Add(c.Usage), l.inNamespace[c.Namespace].Add(c.Usage)
	return c
}

func chargeOf(e *entry, identity compile.Identity) *budget.Charge {
	return &budget.Charge{
		Policy: nameOf(e.alone), Namespace: e.key.Namespace, Cluster: e.isCluster(), Created: e.object.GetCreationTimestamp().Time, Usage: e.usage(identity),
	}
}

// refusal returns why the Limiter, with the others as stored, would leave out the policy, or one that it enforces; empty if the policy fits.
// ClusterRateLimitPolicies can displace namespaced ones. What the operator leaves out anyway is no obstacle for other policies.
func (l *ledger) refusal(e *entry, limiter string) string {
	own, previous := chargeOf(e, l.identity), budget.Usage{}
	if before := l.charges[e.key]; before != nil {
		previous = before.Usage
	}
	if own.Usage.IsAtMost(previous) || l.hasRoom(own, previous) {
		return ""
	}
	charges := l.with(e.key, own)
	_, excesses := l.limits.FitOrdered(charges)
	excess, found := find(excesses, slices.Index(charges, own))
	if !found {
		_, before := l.limits.FitOrdered(l.ordered)
		excess, found = displaced(excesses, charges, before, l.ordered, own.Cluster)
	}
	if !found {
		return ""
	}
	needs := "all policies need"
	if excess.Part == "perNamespace" {
		needs = "namespace " + charges[excess.Index].Namespace + " needs"
	}
	return exceeded(own.Usage, previous, excess.Sum, excess.Limits, needs, limiter, excess.Part)
}

// hasRoom reports whether all policies of the namespace fit, and the total leaves out no policy, with the policy and with its stored version. Then the
// policy displaces no other one: the policies of other namespaces share only the total with it.
func (l *ledger) hasRoom(own *budget.Charge, previous budget.Usage) bool {
	namespace := l.inNamespace[own.Namespace].Minus(previous).Add(own.Usage)
	return (own.Cluster || namespace.IsWithin(l.limits.PerNamespace)) &&
		l.total.IsWithin(l.limits.Total) && l.total.Minus(previous).Add(own.Usage).IsWithin(l.limits.Total)
}

// with returns the charges in order of precedence, with own in place of the stored version of the policy.
func (l *ledger) with(key types.NamespacedName, own *budget.Charge) []*budget.Charge {
	charges := make([]*budget.Charge, 0, len(l.ordered)+1)
	before := l.charges[key]
	at, _ := slices.BinarySearchFunc(l.ordered, own, (*budget.Charge).Compare)
	for _, c := range slices.Insert(slices.Clone(l.ordered), at, own) {
		if c != before {
			charges = append(charges, c)
		}
	}
	return charges
}
