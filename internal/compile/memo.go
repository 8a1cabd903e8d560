package compile

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/lowering"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Source is a policy to compile. It is read-only, and must not change: an edit is another Source with another Generation.
type Source struct {
	// UID and Generation identify the policy and its spec. Nothing is remembered of a policy without a UID.
	UID        string
	Generation int64

	Namespace, Name string // Namespace is empty for a ClusterRateLimitPolicy
	Created         time.Time
	// Spec of a RateLimitPolicy, or Cluster of a ClusterRateLimitPolicy; the other one is nil.
	Spec    *policyapi.RateLimitPolicySpec
	Cluster *policyapi.ClusterRateLimitPolicySpec
}

// Inputs are what a [Memo] compiles. The fields are those of [Policies].
type Inputs struct {
	Policies   iter.Seq[*Source] // in any order; a Source is valid until the next one
	Namespaces []Namespace
	// NamespacesVersion differs if any namespace differs from those with another NamespacesVersion. It is 0 if it is unknown.
	NamespacesVersion uint64
	Gateways          *gateway.Objects
	RouteMatching     []policyapi.GatewayReference
}

// Memo compiles policies. It remembers what it found out about each policy, and finds it out again only if the policy, or an object on which it depends,
// has changed. The results are those of an empty Memo. It has no policy that the last call did not have. It is not safe for concurrent use.
//
// What is left for each policy in each call are comparisons: who has counters, targets and the budget depends on all policies.
type Memo struct {
	calls    uint64
	identity Identity
	hashKey  string // ID of the hash key; empty without one

	byUID   map[string]*entry
	byName  []*entry // all policies
	byAge   []*entry // the valid policies, in order of precedence
	counter map[string]*place
	claimed map[claim]*place
	// contention is set when a name of counters that more than one policy wants gets or loses one of them.
	contention bool

	index      *gateway.Index
	table      table
	compiled   []*compiled // those with rules in the last Set, in the order of their rules
	rules      []rules.Rule
	ages       ages
	namespaces namespaceMemo
	overrides  redundancy.Comparison
}

// place is what one policy can have: the counters of a name, or a claim.
type place struct {
	policies int    // that want it
	call     uint64 // in which a policy got it
	by       string // that policy
}

// holder returns the policy that has the place in this call; empty if it is free.
func (p *place) holder(call uint64) string {
	if p.call != call {
		return ""
	}
	return p.by
}

// entry is what is remembered of a policy. The fields that each call reads come first: with many policies, most of the time is spent on reading memory.
type entry struct {
	call       uint64 // the last one with the policy
	generation int64
	sharing    int  // policies with this name, see compareNames
	targeted   bool // the policy has targets
	contested  bool // another policy wants its counters
	counter    *place
	attached   attached
	result     outcome

	uid     string
	invalid []Problem // if no other policy has the name
	claims  []claim   // one for each target
	places  []*place

	lowered  []rules.Rule // without targets
	bases    []gateway.Basis
	targets  []gateway.Target
	rejected []string // by target: the policy that has the claim

	lowering.Valid
}

// outcome is the result for one policy in one call.
type outcome struct {
	problems []Problem
	attached bool // the policy has an attachment
	enforced bool
}

// Compile compiles the policies that fit the budget, as [Policies.CompileWithin].
func (m *Memo) Compile(in Inputs, identity Identity, limits budget.Budget) Result {
	m.setIdentity(identity)
	m.calls++
	m.update(in.Policies)
	var result Result
	m.lower(in.Gateways, limits, &result)
	enforced := m.collect(&result)
	m.place(enforced)
	result.Policies = make([]*Compiled, len(m.compiled))
	for i, c := range m.compiled {
		result.Policies[i] = &c.Compiled
	}
	result.Set.Rules = m.setRules()
	if identity.HashKey != nil && slices.ContainsFunc(m.compiled, func(c *compiled) bool { return c.hashes }) {
		result.Set.HashKey = identity.HashKey.ID()
	}
	result.Set.ByAge = m.ages.update(enforced)
	result.Set.RouteTable, result.LeftOut = m.table.build(&in)
	result.Set.Namespaces = m.namespaces.update(&in, m.compiled, identity)
	result.Overrides = m.overrides.Overrides(overridesOf(m.compiled))
	result.Unmatched = in.unmatched(m.compiled)
	return result
}

// Remembered returns the number of policies, and of the names and claims that they have, in the memo.
func (m *Memo) Remembered() int {
	return len(m.byUID) + len(m.byName) + len(m.byAge) + len(m.counter) + len(m.claimed) + len(m.compiled) + len(m.rules) + len(m.ages)
}

// setIdentity forgets everything if the identity table is another one: each rule depends on it.
func (m *Memo) setIdentity(identity Identity) {
	id := ""
	if identity.HashKey != nil {
		id = identity.HashKey.ID()
	}
	if m.identity.WithHashKey(nil) != identity.WithHashKey(nil) || m.hashKey != id || m.byUID == nil {
		*m = Memo{
			identity: identity, hashKey: id, calls: m.calls, byUID: map[string]*entry{}, counter: map[string]*place{}, claimed: map[claim]*place{},
		}
	}
	m.identity.HashKey = cmp.Or(identity.HashKey, new(limiter.HashKey))
}

// update replaces the policies.
func (m *Memo) update(sources iter.Seq[*Source]) {
	var added []*entry
	known := 0
	for s := range sources {
		e := m.byUID[s.UID]
		if e != nil && e.call != m.calls && e.isOf(s) {
			e.call = m.calls
			known++
			continue
		}
		added = append(added, m.newEntry(s))
	}
	if len(added) == 0 && known == len(m.byName) {
		return
	}
	gone := func(e *entry) bool { return e.call != m.calls }
	for _, e := range m.byName {
		if gone(e) {
			m.forget(e)
		}
	}
	m.byName = replaceSorted(m.byName, gone, added, func(a, b *entry) int { return compareNames(&a.Policy, &b.Policy) })
	valid := slices.DeleteFunc(added, func(e *entry) bool { return len(e.invalid) > 0 })
	m.byAge = replaceSorted(m.byAge, gone, valid, func(a, b *entry) int { return comparePrecedence(&a.Policy, &b.Policy) })
	for i := 0; i < len(m.byName); {
		first := m.byName[i]
		same := 1
		for i+same < len(m.byName) && compareNames(&m.byName[i+same].Policy, &first.Policy) == 0 {
			same++
		}
		for _, e := range m.byName[i : i+same] {
			e.sharing = same
			if m.contention && e.counter != nil {
				e.contested = e.counter.policies > 1
			}
		}
		i += same
	}
	m.contention = false
}

// isOf reports whether the entry is that of the policy with this spec.
func (e *entry) isOf(s *Source) bool {
	return e.generation == s.Generation && e.ObjectName == s.Name && e.Namespace == s.Namespace && (e.Cluster != nil) == (s.Cluster != nil) &&
		e.Created.Equal(s.Created)
}

// newEntry validates a policy.
func (m *Memo) newEntry(s *Source) *entry {
	e := &entry{uid: s.UID, generation: s.Generation, call: m.calls}
	if s.Cluster == nil {
		e.Policy = lowering.New(s.Namespace, s.Name, s.Created, s.Spec)
	} else {
		e.Policy = lowering.NewCluster(s.Name, s.Created, s.Cluster)
	}
	valid, problems := e.Validate()
	if e.invalid = problems; len(problems) == 0 {
		e.Valid = valid
		e.counter = wanted(m.counter, e.Counter())
		m.contention = m.contention || e.counter.policies > 1
		if e.targeted = len(e.Spec.TargetRefs) > 0; e.targeted {
			e.claims = claimsOf(&e.Valid)
			for _, c := range e.claims {
				e.places = append(e.places, wanted(m.claimed, c))
			}
		}
	}
	if before := m.byUID[s.UID]; s.UID != "" && (before == nil || before.call != m.calls) {
		m.byUID[s.UID] = e
	}
	return e
}

// wanted returns the place that one more policy wants.
func wanted[K comparable](places map[K]*place, key K) *place {
	if places[key] == nil {
		places[key] = &place{}
	}
	places[key].policies++
	return places[key]
}

func unwanted[K comparable](places map[K]*place, key K) {
	if places[key].policies--; places[key].policies == 0 {
		delete(places, key)
	}
}

// forget forgets a policy that does not exist any more, or that has changed.
func (m *Memo) forget(e *entry) {
	if m.byUID[e.uid] == e {
		delete(m.byUID, e.uid)
	}
	if e.counter == nil {
		return
	}
	unwanted(m.counter, e.Counter())
	m.contention = m.contention || e.counter.policies > 0
	for _, c := range e.claims {
		unwanted(m.claimed, c)
	}
}

// fewAdded is the number of elements that are inserted into a sorted list one by one.
const fewAdded = 16

// replaceSorted removes and adds elements of a sorted list. It changes list.
func replaceSorted[T any](list []T, isGone func(T) bool, added []T, compare func(a, b T) int) []T {
	list = slices.DeleteFunc(list, isGone)
	if len(added) > fewAdded {
		list = append(list, added...)
		slices.SortFunc(list, compare)
		return list
	}
	for _, element := range added {
		i, _ := slices.BinarySearchFunc(list, element, compare)
		list = slices.Insert(list, i, element)
	}
	return list
}

// sortStable takes linear time for a list that is sorted.
func sortStable[T any](list []T, compare func(a, b T) int) {
	if !slices.IsSortedFunc(list, compare) {
		slices.SortStableFunc(list, compare)
	}
}

// lower makes the rules of the valid policies that have a target, if they need one, and that fit the budget. The others get a problem. It takes the
// policies in order of precedence: a policy without a rule must not conflict with a newer one.
func (m *Memo) lower(objects *gateway.Objects, limits budget.Budget, result *Result) {
	m.index = objects.IndexAfter(m.index)
	previous, fits := previousRulesOf(objects), limits.NewFitting()
	for _, e := range m.byAge {
		e.result = outcome{}
		if e.sharing > 1 {
			continue
		}
		if e.contested {
			if other := e.counter.holder(m.calls); other != "" {
				e.result.problems = []Problem{sharesCounters(&e.Policy, other)}
				continue
			}
		}
		a := &e.attached
		if e.targeted || a.compiled == nil {
			m.attach(e, previous, result)
		}
		e.result.attached = a.attachment != nil
		if len(a.problems) > 0 {
			e.result.problems = a.problems
			continue
		}
		if problem := a.fit(fits, &e.Policy); problem != nil {
			e.result.problems = []Problem{*problem}
			continue
		}
		if m.index != nil && a.attachment != nil {
			for i := range a.attachment.Targets {
				if a.attachment.Targets[i].Reason == policyapi.ReasonAccepted {
					e.places[i].call, e.places[i].by = m.calls, e.Name
				}
			}
		}
		if e.contested {
			e.counter.call, e.counter.by = m.calls, e.Name
		}
		e.result.enforced = true
	}
	result.Used = fits.Used
}

// collect adds problems and attachments to the result. It returns the policies with rules, in order of their names.
func (m *Memo) collect(result *Result) (enforced []*compiled) {
	var later []Problem
	enforced = make([]*compiled, 0, len(m.byAge))
	for i, e := range m.byName {
		switch {
		case e.sharing > 1 && i > 0 && compareNames(&m.byName[i-1].Policy, &e.Policy) == 0: // reported already
		case e.sharing > 1:
			result.Problems = append(result.Problems, sharesName(&e.Policy, e.sharing))
		default:
			result.Problems = append(result.Problems, e.invalid...)
			later = append(later, e.result.problems...)
			if e.result.attached {
				result.Attachments = append(result.Attachments, *e.attached.attachment)
			}
			if e.result.enforced {
				enforced = append(enforced, e.attached.compiled)
			}
		}
	}
	result.Problems = append(result.Problems, later...)
	sortStable(result.Problems, func(x, y Problem) int { return cmp.Compare(x.Policy, y.Policy) })
	return enforced
}

// place replaces the policies with rules.
func (m *Memo) place(enforced []*compiled) {
	var added []*compiled
	for _, c := range enforced {
		if c.call == 0 || c.call != m.calls-1 {
			c.at = -1
			added = append(added, c)
		}
		c.call = m.calls
	}
	gone := func(c *compiled) bool { return c.call != m.calls }
	m.compiled = replaceSorted(m.compiled, gone, added, func(a, b *compiled) int {
		return cmp.Or(cmp.Compare(a.Rules[0].Policy, b.Rules[0].Policy), compareBool(!a.Cluster, !b.Cluster))
	})
}

// setRules returns the rules of all policies. It copies only those that are not at their place since the last call.
func (m *Memo) setRules() []rules.Rule {
	total := 0
	for _, c := range m.compiled {
		total += len(c.Rules)
	}
	if total == 0 {
		m.rules = nil
		return nil
	}
	if total < len(m.rules) {
		clear(m.rules[total:]) // they hold memory
	}
	m.rules = slices.Grow(m.rules[:min(total, len(m.rules))], max(0, total-len(m.rules)))[:total]
	at := 0
	for _, c := range m.compiled {
		if c.at != at {
			copy(m.rules[at:], c.Rules)
			c.at = at
		}
		at += len(c.Rules)
	}
	return m.rules
}
