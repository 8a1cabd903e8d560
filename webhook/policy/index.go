package policy

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

// index has what validation needs of the stored policies. It compiles a policy when the cache reports it, alone. So the validation of an edit costs what
// the edit changes, however many policies there are. It has no policy that the cache does not have.
type index struct {
	cache    Cache
	identity compile.Identity

	followed atomic.Bool
	followMu sync.Mutex
	handlers []toolscache.ResourceEventHandlerRegistration

	mu         sync.Mutex
	scopes     map[string]*scope // by namespace; "" has the ClusterRateLimitPolicies
	namespaces map[string]compile.Namespace
	ledgers    map[types.NamespacedName]*ledger // by Limiter
	identities map[compile.Identity]bool        // of the ledgers
}

func newIndex(cache Cache, identity compile.Identity) *index {
	return &index{
		cache: cache, identity: identity,
		scopes: map[string]*scope{}, namespaces: map[string]compile.Namespace{}, ledgers: map[types.NamespacedName]*ledger{},
	}
}

// scope has the policies of a namespace, or the ClusterRateLimitPolicies.
type scope struct {
	policies map[string]*entry
	// These have the valid policies.
	counters map[string][]*entry // those that want the counters of a name, in order of precedence
	stricter *redundancy.Index[*entry]
}

// entry is a policy, compiled alone. It is read-only, apart from usages.
type entry struct {
	key     types.NamespacedName // without a namespace for a ClusterRateLimitPolicy
	object  client.Object
	alone   stored.Policies
	result  compile.Result
	rules   []rules.Rule // empty if the policy is invalid, or is being deleted
	counter string       // see [policyapi.RateLimitPolicySpec.CounterName]

	usages map[compile.Identity]budget.Usage
}

// newEntry compiles a policy.
func newEntry(object client.Object, identity compile.Identity) *entry {
	e := &entry{key: client.ObjectKeyFromObject(object), object: object}
	switch o := object.(type) {
	case *v1alpha1.RateLimitPolicy:
		e.alone.Namespaced = []*v1alpha1.RateLimitPolicy{o}
	case *v1alpha1.ClusterRateLimitPolicy:
		e.alone.Cluster = []*v1alpha1.ClusterRateLimitPolicy{o}
	}
	e.result = e.alone.CompileWithin(identity, compile.Counting())
	e.rules, e.usages = e.result.Set.Rules, map[compile.Identity]budget.Usage{identity: e.result.Used}
	e.counter = cmp.Or(specOf(e.alone).CounterName, e.key.Name)
	return e
}

// usage returns what the policy uses of the budget of a Limiter with that identity table.
func (e *entry) usage(identity compile.Identity) budget.Usage {
	usage, isKnown := e.usages[identity]
	if !isKnown {
		usage = e.alone.Usage(identity)
		e.usages[identity] = usage
	}
	return usage
}

func (e *entry) isCluster() bool { return len(e.alone.Cluster) > 0 }

// precedes reports whether the policy gets what another one of its scope wants too.
func (e *entry) precedes(other *entry) bool { return comparePrecedence(e, other) < 0 }

// comparePrecedence compares two policies of one scope.
func comparePrecedence(a, b *entry) int {
	return cmp.Or(a.object.GetCreationTimestamp().Compare(b.object.GetCreationTimestamp().Time), cmp.Compare(a.key.Name, b.key.Name))
}

// compareRules is the order of two policies of one scope in a rule set.
func compareRules(a, b *entry) int { return cmp.Compare(a.rules[0].Policy, b.rules[0].Policy) }

// setPolicy records the current version of a policy. It compiles the policy if its spec is another one.
func (x *index) setPolicy(object client.Object) {
	if x.updated(object) {
		return
	}
	e := newEntry(object, x.identity) // without the lock: validation goes on
	x.mu.Lock()
	defer x.mu.Unlock()
	x.replace(e.key, x.find(e.key), e)
}

// updated records a version of a policy that compiles to the same as the one before, and reports whether it is such a version.
func (x *index) updated(object client.Object) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.find(client.ObjectKeyFromObject(object))
	if e == nil || !isSameVersion(e.object, object) {
		return false
	}
	labels := e.object.GetLabels()
	e.update(object)
	if !maps.Equal(labels, object.GetLabels()) {
		x.charge(e.key, e)
	}
	return true
}

// isSameVersion reports whether two versions of a policy compile to the same.
func isSameVersion(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && a.GetCreationTimestamp().Time.Equal(b.GetCreationTimestamp().Time) &&
		a.GetDeletionTimestamp().IsZero() == b.GetDeletionTimestamp().IsZero()
}

// update replaces the object by another one of the same version, so that the memory of the old one can be freed.
func (e *entry) update(object client.Object) {
	e.object = object
	switch o := object.(type) {
	case *v1alpha1.RateLimitPolicy:
		e.alone.Namespaced[0] = o
	case *v1alpha1.ClusterRateLimitPolicy:
		e.alone.Cluster[0] = o
	}
}

func (x *index) removePolicy(key types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.replace(key, x.find(key), nil)
}

// find returns the stored policy; nil without one.
func (x *index) find(key types.NamespacedName) *entry {
	if s := x.scopes[key.Namespace]; s != nil {
		return s.policies[key.Name]
	}
	return nil
}

// replace replaces a policy. Before is nil for a new one, and after for one that was deleted.
func (x *index) replace(key types.NamespacedName, before, after *entry) {
	s := x.scopes[key.Namespace]
	if s == nil {
		s = &scope{policies: map[string]*entry{}, counters: map[string][]*entry{}, stricter: redundancy.NewIndex(compareRules)}
		x.scopes[key.Namespace] = s
	}
	if before != nil && len(before.rules) > 0 {
		s.stricter.Remove(before, before.rules)
		if rest := slices.DeleteFunc(s.counters[before.counter], func(e *entry) bool { return e == before }); len(rest) > 0 {
			s.counters[before.counter] = rest
		} else {
			delete(s.counters, before.counter)
		}
	}
	if after == nil {
		delete(s.policies, key.Name)
	} else {
		s.policies[key.Name] = after
		after.result = compile.Result{} // only validation needs it
	}
	if after != nil && len(after.rules) > 0 {
		s.stricter.Add(after, after.rules)
		list := s.counters[after.counter]
		at, _ := slices.BinarySearchFunc(list, after, comparePrecedence)
		s.counters[after.counter] = slices.Insert(list, at, after)
	}
	if len(s.policies) == 0 {
		delete(x.scopes, key.Namespace)
	}
	x.charge(key, after)
}

// charge changes what a policy uses of the budgets of Limiters. The policy is nil if it was deleted.
func (x *index) charge(key types.NamespacedName, e *entry) {
	for _, l := range x.ledgers {
		l.set(key, e, x.namespaces)
	}
}

// setNamespace records the labels of a namespace, or that it does not exist.
func (x *index) setNamespace(name string, labels map[string]string, exists bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before, existed := x.namespaces[name]
	if exists == existed && maps.Equal(before.Labels, labels) {
		return
	}
	if delete(x.namespaces, name); exists {
		x.namespaces[name] = compile.Namespace{Name: name, Labels: labels}
	}
	s := x.scopes[name]
	if s == nil {
		return
	}
	for _, l := range x.ledgers {
		if !l.readsNamespaces() {
			continue
		}
		for _, e := range s.policies {
			l.set(e.key, e, x.namespaces)
		}
	}
}

// namespace returns the namespace with that name, in a list; an empty list if it does not exist.
func (x *index) namespace(name string) []compile.Namespace {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n, exists := x.namespaces[name]; exists {
		return []compile.Namespace{n}
	}
	return nil
}

// relevant returns the stored policies on which the verdict of a policy depends. Compiled with them, the policy has the problems and the warnings that it
// has with all policies of its namespace and all ClusterRateLimitPolicies:
//
//   - The policy that has its counters: then the rules of the policy are not enforced, and nothing else matters.
//   - For each of its rules, the first policy that makes it redundant.
//   - The defaults that it replaces, and one ClusterRateLimitPolicy: without any, they cannot be missing.
//
// A policy is relevant only if it is enforced: it has its counters, with the policy that is validated in place of its stored version.
func (x *index) relevant(e *entry) (others stored.Policies) {
	if len(e.rules) == 0 {
		return others
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	found := map[*entry]bool{}
	add := func(other *entry) {
		if !found[other] {
			found[other] = true
			others.Namespaced = append(others.Namespaced, other.alone.Namespaced...)
			others.Cluster = append(others.Cluster, other.alone.Cluster...)
		}
	}
	if holder := x.holder(e.key.Namespace, e.counter, e.key); holder != nil && holder.precedes(e) {
		add(holder)
		return others
	}
	isEnforced := func(other *entry) bool {
		wantsTheSame := other.key.Namespace == e.key.Namespace && other.counter == e.counter
		return other.key != e.key && x.holder(other.key.Namespace, other.counter, e.key) == other && !wantsTheSame
	}
	for i := range e.rules {
		for _, namespace := range slices.Compact([]string{"", e.key.Namespace}) {
			if s := x.scopes[namespace]; s != nil {
				if first, exists := s.stricter.First(&e.rules[i], isEnforced); exists {
					add(first)
				}
			}
		}
	}
	if len(e.rules[0].ReplacesDefaults) > 0 {
		x.addReplaced(e, isEnforced, add)
	}
	return others
}

// addReplaced adds the ClusterRateLimitPolicies that the policy replaces, and any other one.
func (x *index) addReplaced(e *entry, isEnforced func(*entry) bool, add func(*entry)) {
	s := x.scopes[""]
	if s == nil {
		return
	}
	for _, name := range specOf(e.alone).Replaces {
		if replaced := s.policies[string(name)]; replaced != nil && isEnforced(replaced) {
			add(replaced)
		}
	}
	for counter := range s.counters {
		if holder := x.holder("", counter, e.key); holder != nil {
			add(holder)
			return
		}
	}
}

// holder returns the policy that has the counters of that name, without the policy except; nil without one.
func (x *index) holder(namespace, counter string, except types.NamespacedName) *entry {
	s := x.scopes[namespace]
	if s == nil {
		return nil
	}
	for _, e := range s.counters[counter] {
		if e.key != except {
			return e
		}
	}
	return nil
}
