package compile

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/lists"
	"github.com/weir-dev/weir/internal/compile/lowering"
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

// Origin is a policy where it is stored. Origins are comparable: an Origin that is equal to an earlier one has the same Source.
type Origin interface {
	// Source returns what compiling reads of the policy, and nil while the policy is being deleted.
	Source() *Source
}

// Inputs are what a [Memo] compiles. The fields are those of [Policies].
type Inputs struct {
	Policies   iter.Seq[Origin] // in any order; policies that keep their places are not read again
	Namespaces []Namespace
	// NamespacesVersion differs if any namespace differs from those with another NamespacesVersion. It is 0 if it is unknown.
	NamespacesVersion uint64
	Gateways          *gateway.Objects
	RouteMatching     []policyapi.GatewayReference
}

// Memo compiles policies. It remembers what it found out about each policy, and finds it out again only if the policy, or an object on which it depends,
// has changed. The results are those of an empty Memo. It has no policy that the last call did not have. It is not safe for concurrent use.
//
// A change on which no other policy depends costs as much as the policies that have changed, apart from lists. Who has counters, targets and the budget
// can depend on all policies: then each of them is looked at.
type Memo struct {
	calls    uint64
	identity Identity
	hashKey  string // ID of the hash key; empty without one

	origins []Origin // of the last Inputs
	entries []*entry // of these; nil while the policy is being deleted
	byUID   map[string]*entry
	byName  []*entry // all policies
	byAge   []*entry // the valid policies, in order of precedence
	counter map[string]*place
	claimed map[claim]*place
	// contention is set when a name of counters that more than one policy wants gets or loses one of them.
	contention bool

	index   *gateway.Index
	decided decided
	table   table
	ages    ages
	set     placed
}

// decided is which policies have rules, and what is wrong with the others.
type decided struct {
	limits      budget.Budget
	fits        *budget.Fitting
	problems    []Problem
	attachments []Attachment
	enforced    []*compiled // in order of their names
	// independent is true if a policy without targets, whose counters no other one wants, depends on no other one.
	independent bool
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
	listed     bool // the policy is in the last Inputs
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
	gone, added := m.update(in.Policies)
	var result Result
	if !m.decideFor(gone, added, in.Gateways, limits) {
		m.decide(in.Gateways, limits, &result)
	}
	d := &m.decided
	result.Used, result.Problems, result.Attachments = d.fits.Used, d.problems, d.attachments
	result.Policies = m.set.policies()
	result.Set.Rules = m.set.rules
	if identity.HashKey != nil && m.set.hashing > 0 {
		result.Set.HashKey = identity.HashKey.ID()
	}
	result.Set.ByAge = m.ages.byScope()
	result.Set.RouteTable, result.LeftOut = m.table.build(&in)
	result.Set.Namespaces = m.set.namespaces.update(&in, m.set.special, identity)
	result.Overrides = m.set.overrides.Overrides()
	result.Unmatched = in.unmatched(m.set.special)
	return result
}

// Remembered returns the number of policies, and of the names and claims that they have, in the memo.
func (m *Memo) Remembered() int {
	return len(m.origins) + len(m.entries) + len(m.byUID) + len(m.byName) + len(m.byAge) + len(m.counter) + len(m.claimed) + len(m.ages) +
		len(m.decided.enforced) + m.set.remembered()
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

// update replaces the policies. It returns the entries that are not in the list any more, and the new ones.
func (m *Memo) update(policies iter.Seq[Origin]) (gone, added []*entry) {
	origins := slices.AppendSeq(make([]Origin, 0, len(m.origins)), policies)
	removed, places := lists.Diff(m.origins, origins)
	if len(removed)+len(places) == 0 {
		return nil, nil
	}
	entries := make([]*entry, 0, len(origins)) // nil for a policy that is not there, or is being deleted
	for at, r, p := 0, removed, places; at < len(m.entries) || len(p) > 0; {
		switch {
		case len(p) > 0 && p[0] == len(entries):
			entries, p = append(entries, nil), p[1:]
		case len(r) > 0 && r[0] == at:
			if e := m.entries[at]; e != nil {
				e.listed = false
				gone = append(gone, e)
			}
			at, r = at+1, r[1:]
		default:
			entries, at = append(entries, m.entries[at]), at+1
		}
	}
	m.origins, m.entries = origins, entries
	sources := make([]*Source, len(places)) // of the policies without an entry
	for i, at := range places {
		s := m.origins[at].Source()
		if s == nil {
			continue
		}
		if e := m.byUID[s.UID]; e != nil && !e.listed && e.isOf(s) {
			e.listed, m.entries[at] = true, e
		} else {
			sources[i] = s
		}
	}
	gone = slices.DeleteFunc(gone, func(e *entry) bool { return e.listed })
	for _, e := range gone { // before the new ones, which can have their names and counters
		m.forget(e)
	}
	for i, at := range places {
		if sources[i] != nil {
			e := m.newEntry(sources[i])
			m.entries[at] = e
			added = append(added, e)
		}
	}
	m.sort(gone, added)
	return gone, added
}

// sort replaces the policies in the sorted lists, and finds out which of them have the same name or want the same counters.
func (m *Memo) sort(gone, added []*entry) {
	if len(gone)+len(added) == 0 {
		return
	}
	isValid := func(e *entry) bool { return len(e.invalid) == 0 }
	m.byName = lists.Replace(m.byName, gone, added, func(a, b *entry) int { return compareNames(&a.Policy, &b.Policy) })
	precedence := func(a, b *entry) int { return comparePrecedence(&a.Policy, &b.Policy) }
	m.byAge = lists.Replace(m.byAge, lists.Filter(gone, isValid), lists.Filter(added, isValid), precedence)
	for _, changed := range [][]*entry{gone, added} {
		for _, e := range changed {
			m.share(e)
		}
	}
	if m.contention {
		for _, e := range m.byAge {
			e.contested = e.counter.policies > 1
		}
	}
	m.contention = false
}

// share sets how many policies have the name of e.
func (m *Memo) share(e *entry) {
	compare := func(a, b *entry) int { return compareNames(&a.Policy, &b.Policy) }
	first, _ := slices.BinarySearchFunc(m.byName, e, compare)
	end := first
	for end < len(m.byName) && compare(m.byName[end], e) == 0 {
		end++
	}
	for _, same := range m.byName[first:end] {
		same.sharing = end - first
	}
}

// isOf reports whether the entry is that of the policy with this spec.
func (e *entry) isOf(s *Source) bool {
	return e.generation == s.Generation && e.ObjectName == s.Name && e.Namespace == s.Namespace && (e.Cluster != nil) == (s.Cluster != nil) &&
		e.Created.Equal(s.Created)
}

// newEntry validates a policy.
func (m *Memo) newEntry(s *Source) *entry {
	e := &entry{uid: s.UID, generation: s.Generation, listed: true}
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
	if s.UID != "" && m.byUID[s.UID] == nil {
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
