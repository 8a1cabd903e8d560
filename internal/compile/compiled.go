package compile

import (
	"reflect"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/lowering"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Compiled is a policy with its rules. It is the same in the results of a [Memo] until something of it changes.
type Compiled struct {
	Policy  string
	Cluster bool
	Rules   []rules.Rule // read-only
}

// compiled is a Compiled with what a Memo finds out about it.
type compiled struct {
	Compiled

	created time.Time
	scope   string // of its name
	hashes  bool   // a rule hashes identifiers
	// unmatched is why the rules limit no request, apart from the namespaces; the zero value if some may.
	unmatched Unmatched
	overrides *redundancy.Policy
	inputs    namespaceInputs

	call     uint64 // the last one that looked at all policies, and in which the policy was enforced
	isPlaced bool   // the rules are in the Set
	at       int    // index of the rules in the Set; -1 if they are not there
	// namespaced is whether a namespace can have writes that match, with the namespaces of that version.
	namespaced struct {
		version uint64
		matches bool
	}
}

func newCompiled(p *lowering.Policy, own []rules.Rule, attachment *Attachment) *compiled {
	c := &compiled{
		Compiled: Compiled{p.Name, p.Cluster != nil, own}, created: p.Created, at: -1,
		overrides: redundancy.NewPolicy(own), inputs: namespaceInputsOf(own),
	}
	c.scope, _ = policyname.Split(p.Name)
	c.hashes = rules.Set{Rules: own}.HashesIdentifiers()
	c.unmatched = unmatchedOf(&c.Compiled, attachment)
	return c
}

// isSpecial reports whether the policy limits writes, or no request.
func (c *compiled) isSpecial() bool {
	return c.unmatched.Reason != "" || c.Rules[0].Match.Kubernetes != nil
}

// usageOf returns what the rules of a policy use of a budget.
func usageOf(p *lowering.Policy, own []rules.Rule) budget.Usage {
	usage := budget.RulesUsage(own)
	inherits := func(ref policyapi.TargetReference) bool { return gateway.Inherits(p.Namespace, &ref) }
	if p.Cluster == nil && slices.ContainsFunc(p.Spec.TargetRefs, inherits) {
		usage.Bytes += budget.InheritedBytes * int64(len(own))
	}
	return usage
}

// attached is a policy at its targets. The zero value is not known yet.
type attached struct {
	usage      budget.Usage
	isUsed     bool        // usage is known
	compiled   *compiled   // nil if no target accepts the policy
	attachment *Attachment // nil without targets, or if the previous rules are kept
	problems   []Problem
	kept       bool
}

// attach sets the rules of a policy at its targets.
func (m *Memo) attach(e *entry, previous previousRules, result *Result) {
	if e.lowered == nil {
		e.lowered = e.Lower(m.identity, m.identity.HashKey)
	}
	if !e.targeted {
		e.attached = attached{compiled: newCompiled(&e.Policy, e.lowered, nil)}
		return
	}
	kept, outdated := previous.find(&e.Valid, e.lowered)
	if kept != nil {
		result.Kept = append(result.Kept, Kept{e.Name, e.Cluster != nil, outdated})
		if !e.attached.kept || !reflect.DeepEqual(e.attached.compiled.Rules, kept) {
			e.attached = attached{compiled: newCompiled(&e.Policy, kept, nil), kept: true}
		}
		return
	}
	resolved, claimed := m.resolve(e), m.reject(e)
	if e.attached.attachment != nil && !resolved && !claimed {
		return
	}
	a := Attachment{Policy: e.Name, Cluster: e.Cluster != nil, Targets: slices.Clone(e.targets)}
	for i, other := range e.rejected {
		if other != "" {
			e.claims[i].reject(&a.Targets[i], other)
		}
	}
	e.attached = attached{attachment: &a, problems: a.problems()}
	if len(e.attached.problems) == 0 {
		own := slices.Clone(e.lowered)
		a.apply(own)
		e.attached.compiled = newCompiled(&e.Policy, own, &a)
	}
}

// resolve resolves the targets of a policy, and reports whether they have changed.
func (m *Memo) resolve(e *entry) (changed bool) {
	refs := e.Spec.TargetRefs
	if e.targets == nil {
		e.targets, e.bases, e.rejected = make([]gateway.Target, len(refs)), make([]gateway.Basis, len(refs)), make([]string, len(refs))
		changed = true
	}
	for i := range refs {
		basis := m.index.Basis(e.Namespace, e.Cluster != nil, &refs[i])
		if basis != e.bases[i] || e.targets[i].Reason == "" {
			e.bases[i], e.targets[i], changed = basis, basis.Target(e.Namespace, refs[i]), true
		}
	}
	return changed
}

// reject finds the targets whose claims older policies have, and reports whether they have changed. Targets are not rejected while they are unknown.
func (m *Memo) reject(e *entry) (changed bool) {
	for i := range e.targets {
		other := ""
		if m.index != nil && e.targets[i].Reason == policyapi.ReasonAccepted {
			other = e.places[i].holder(m.calls)
		}
		if other != e.rejected[i] {
			e.rejected[i], changed = other, true
		}
	}
	return changed
}

// fit adds the rules of a policy to those that fit, or returns the problem of a policy that does not fit. Without a budget, all policies fit.
func (a *attached) fit(fits *budget.Fitting, p *lowering.Policy) *Problem {
	if fits.IsUnlimited() {
		return nil
	}
	charge := a.charge(p)
	e, fit := fits.Fit(&charge)
	if fit {
		return nil
	}
	return &Problem{Policy: p.Name, Cluster: charge.Cluster, Field: "spec", Reason: policyapi.ReasonOverBudget, Message: budget.OverBudget(&charge, e)}
}

// charge returns what the rules of a policy use of a budget.
func (a *attached) charge(p *lowering.Policy) budget.Charge {
	if !a.isUsed {
		a.usage, a.isUsed = usageOf(p, a.compiled.Rules), true
	}
	return budget.Charge{Policy: p.Name, Namespace: p.Namespace, Cluster: p.Cluster != nil, Usage: a.usage}
}
