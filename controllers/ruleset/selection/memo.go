package selection

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

// Memo remembers what a [Compiler] found out about the policies of one Limiter. The zero value is empty. It is not safe for concurrent use.
type Memo struct {
	compile compile.Memo

	selected    stored.Policies
	generations map[types.UID]int64 // of the selected policies; read-only
	policies    []*indexedPolicy    // of the last rule set, in the order of their rules
	failed      map[Key]*compile.Problem
	rules       *rulesVersion // of that rule set
	table       *rules.RouteTable
	overridden  map[string]overriddenPolicy
}

// indexedPolicy is a policy with what its status has of its rules.
type indexedPolicy struct {
	*compile.Compiled

	targeted bool   // its rules have routes
	revision string // of its rules
	rule     Rule
	problem  *compile.Problem // nil if there is a rule
}

// overriddenPolicy is a policy with its overrides.
type overriddenPolicy struct {
	overrides []redundancy.Override
	summary   Overridden
}

// index returns the policies with their rules, and those that may have other rules than in the last call by name, nil for one without rules now.
// Rules with the revision that they have in before share its memory.
func (m *Memo) index(
	c Compiler, table *rules.RouteTable, policies []*compile.Compiled, before *RuleSet,
) (after []*indexedPolicy, changed map[string]*indexedPolicy) {
	sameTable := m.table == table
	inTable := routesInTable(table)
	after, changed = make([]*indexedPolicy, 0, len(policies)), map[string]*indexedPolicy{}
	old := m.policies
	remove := func() {
		delete(m.failed, old[0].key())
		if name := old[0].Policy; changed[name] == nil { // no other policy has the name
			changed[name] = nil
		}
		old = old[1:]
	}
	for _, p := range policies {
		for len(old) > 0 && old[0].Compiled != p && old[0].Rules[0].Policy <= p.Rules[0].Policy {
			remove()
		}
		var indexed *indexedPolicy
		if len(old) > 0 && old[0].Compiled == p {
			indexed, old = old[0], old[1:]
		} else {
			indexed = c.indexPolicy(p, before)
			m.add(indexed)
			changed[p.Policy] = indexed
		}
		if indexed.targeted && (!sameTable || indexed.rule.Effective.MatchedBy == "") {
			indexed.rule.Effective.MatchedBy = matchedBy(p.Rules[0].Match.Routes, inTable)
			changed[p.Policy] = indexed
		}
		after = append(after, indexed)
	}
	for len(old) > 0 {
		remove()
	}
	m.policies, m.table = after, table
	return after, changed
}

// add remembers a policy without an effective form.
func (m *Memo) add(p *indexedPolicy) {
	if p.problem == nil {
		return
	}
	if m.failed == nil {
		m.failed = map[Key]*compile.Problem{}
	}
	m.failed[p.key()] = p.problem
}

func (p *indexedPolicy) key() Key { return Key{p.Policy, p.Cluster} }

// generationsOf returns the generations of the selected policies, and what differs from the last call. It returns the same map if nothing does.
func (m *Memo) generationsOf(selected stored.Policies) (map[types.UID]int64, selectionChanges) {
	changes := selectionChanges{since: m.generations}
	m.generations, changes.policies = generationsAfter(m.selected, selected, m.generations)
	m.selected = selected
	return m.generations, changes
}

// indexPolicy returns the policy with its rule.
func (c Compiler) indexPolicy(p *compile.Compiled, before *RuleSet) *indexedPolicy {
	targeted := p.Rules[0].Match.Routes != nil
	revision := rules.PolicyRevision(p.Rules)
	if same, ok := before.rule(p.Policy); ok && same.Revision == revision {
		same.Effective.MatchedBy = ""
		return &indexedPolicy{Compiled: p, targeted: targeted, revision: revision, rule: same}
	}
	effective, err := c.effective(p.Rules)
	if err != nil { // the compiler validates the limit; a rule that fails here fails in the limiter too
		problem := compile.Problem{Policy: p.Policy, Cluster: p.Cluster, Reason: v1alpha1.ReasonInvalid, Message: err.Error()}
		return &indexedPolicy{Compiled: p, targeted: targeted, revision: revision, problem: &problem}
	}
	return &indexedPolicy{Compiled: p, targeted: targeted, revision: revision, rule: Rule{Policy: p.Policy, Revision: revision, Effective: effective}}
}

// overriddenByPolicy summarizes the overrides of each policy. Overrides of the same policy must be adjacent.
func (m *Memo) overriddenByPolicy(all []redundancy.Override) map[string]Overridden {
	by, after := map[string]Overridden{}, map[string]overriddenPolicy{}
	for from := 0; from < len(all); {
		to := from
		for to < len(all) && all[to].Policy == all[from].Policy {
			to++
		}
		policy, own := all[from].Policy, all[from:to]
		known, isKnown := m.overridden[policy]
		if !isKnown || !slices.Equal(known.overrides, own) {
			reason, message := redundancy.OverriddenCondition(own)
			known = overriddenPolicy{own, Overridden{reason, message, stored.OverriddenBy(own), int32(to - from)}}
		}
		by[policy], after[policy] = known.summary, known
		from = to
	}
	m.overridden = after
	return by
}
