// Package selection determines the rule set of a Limiter. It lists the policies and compiles those that the Limiter selects.
package selection

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/hashkey"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/window"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// RuleSet is compiled from the policies that a Limiter selects. It is immutable.
type RuleSet struct {
	// Limiter that selects the policies.
	Limiter LimiterVersion
	// Policies that are selected, with the generations that the rules were compiled from. Generation 0 stands for an older
	// one than the current: see [Compiler.Restore].
	Policies map[types.UID]int64
	// Encoded has the revision, the manifest and the shards of the rule set.
	rules.Encoded
	// Rules by the name of their policy.
	Rules map[string]Rule
	// Problems of the policies that do not compile.
	Problems map[Key][]compile.Problem
	// Used is what the rules use of the Budget.
	Used   budget.Usage
	Budget budget.Budget
	// Overridden policies, by name. Their rules are in Rules and do not decide in some domain.
	Overridden map[string]Overridden
	// Targets of the policies with targets, except invalid ones.
	Targets map[Key][]gateway.Target
	// Unmatched policies: their rules are in Rules and limit no request.
	Unmatched map[Key]compile.Unmatched
	// LeftOut describes the routes that the table of routes does not have; empty if it has all.
	LeftOut string
	// Unreadable describes why the policies of Kept keep their previous rules; empty while the objects are being listed.
	Unreadable string
	// Kept has the policies with targets that keep their previous rules, because the operator cannot read the objects of the Gateway API.
	Kept map[Key]bool

	rules    *rulesVersion // of Rules
	changes  rulesChanges
	selected selectionChanges

	kept           bool   // see KeepPrevious
	namespacesHash uint64 // see Inputs; 0 if the rules do not depend on namespaces
	gatewaysHash   uint64 // see Inputs; 0 if no policy has targets
}

// LimiterVersion is one generation of a Limiter.
type LimiterVersion struct {
	UID        types.UID
	Generation int64
}

// VersionOf returns the version of the Limiter.
func VersionOf(limiter *v1alpha1.Limiter) LimiterVersion {
	return LimiterVersion{limiter.UID, limiter.Generation}
}

// Overridden is the reason why a policy does not decide in some domain. The zero value means that it decides.
type Overridden struct {
	Reason, Message string
	// By has the policies that decide, in the first of the Domains.
	By      []v1alpha1.PolicyOverride
	Domains int32
}

// Rule describes the compiled form of one policy.
type Rule struct {
	Policy    string // its name
	Revision  string
	Effective v1alpha1.EffectivePolicy
}

// Compiler compiles the policies that a Limiter selects.
type Compiler struct {
	// KeyPrefix is the prefix of the Redis keys of counters, for example "weir:".
	KeyPrefix string
	// HashKey is the master key from which the hash keys of Limiters are derived. Without it, the rules must not be published.
	HashKey *limiter.HashKey
	// Encoder keeps what it has encoded for the next rule set. It can be nil.
	Encoder *rules.Encoder
	// Whole encodes rule sets in one document, for limiters that read no shards.
	Whole bool
	// Memo remembers what the last Compile found out. Without it, each Compile finds out everything. It serves one call at a time.
	Memo *Memo
}

// Compile returns the rule set of the selected policies. It returns before, which may be nil, if nothing has changed since.
func (c Compiler) Compile(before *RuleSet, limiter *v1alpha1.Limiter, selected stored.Policies, hashes Hashes) *RuleSet {
	version := VersionOf(limiter)
	memo := cmp.Or(c.Memo, new(Memo))
	generations, changes := memo.generationsOf(selected)
	if before.isCompiledFrom(version, generations, hashes) && before.Whole == c.Whole {
		return before
	}
	budget := stored.BudgetOf(&limiter.Spec)
	selected.RouteMatching = limiter.Spec.RouteMatching.Gateways
	result := selected.CompileAfter(&memo.compile, c.identity(limiter), budget)
	after := c.index(memo, result.Set, result.Policies, before)
	after.Limiter, after.Used, after.Budget = version, result.Used, budget
	if !selected.NoWrites && dependsOnNamespaces(result.Policies) || HasRouteTable(limiter) {
		after.namespacesHash = hashes.NamespacesHash
	}
	after.LeftOut = result.LeftOut
	if selected.HaveTargets() || HasRouteTable(limiter) {
		after.gatewaysHash = hashes.GatewaysHash
	}
	after.Targets = targetsByPolicy(result.Attachments)
	after.Policies, after.selected = generations, changes
	after.keepTargets(before, selected, result.Kept)
	for _, p := range result.Problems {
		k := Key{p.Policy, p.Cluster}
		after.Problems[k] = append(after.Problems[k], p)
	}
	after.Overridden, after.Unmatched = memo.overriddenByPolicy(result.Overrides), unmatchedByPolicy(result.Unmatched)
	return after
}

// identity returns the identity table of the Limiter with its hash key.
func (c Compiler) identity(limiter *v1alpha1.Limiter) compile.Identity {
	identity := stored.IdentityOf(&limiter.Spec)
	if c.HashKey == nil {
		return identity
	}
	return identity.WithHashKey(hashkey.Of(c.HashKey, limiter))
}

// dependsOnNamespaces reports whether a change of a namespace can change the rule set.
func dependsOnNamespaces(policies []*compile.Compiled) bool {
	return slices.ContainsFunc(policies, func(c *compile.Compiled) bool { return c.Rules[0].Match.Kubernetes != nil })
}

// targetsByPolicy returns the targets of each policy that has some.
func targetsByPolicy(all []compile.Attachment) map[Key][]gateway.Target {
	if len(all) == 0 {
		return nil
	}
	by := make(map[Key][]gateway.Target, len(all))
	for _, a := range all {
		by[Key{a.Policy, a.Cluster}] = a.Targets
	}
	return by
}

func unmatchedByPolicy(all []compile.Unmatched) map[Key]compile.Unmatched {
	by := make(map[Key]compile.Unmatched, len(all))
	for _, u := range all {
		by[Key{u.Policy, u.Cluster}] = u
	}
	return by
}

// isCompiledFrom reports whether s was compiled from policies of these generations. The UID and the generation identify a spec.
func (s *RuleSet) isCompiledFrom(limiter LimiterVersion, generations map[types.UID]int64, hashes Hashes) bool {
	return s != nil && s.Limiter == limiter && (s.namespacesHash == 0 || s.namespacesHash == hashes.NamespacesHash) &&
		(s.gatewaysHash == 0 || s.gatewaysHash == hashes.GatewaysHash) && EqualMaps(s.Policies, generations)
}

// index encodes the rule set and indexes its rules by policy. Unchanged rules share their memory with before: rule sets are
// remembered after they are replaced.
func (c Compiler) index(memo *Memo, set rules.Set, policies []*compile.Compiled, before *RuleSet) *RuleSet {
	s := &RuleSet{Problems: map[Key][]compile.Problem{}}
	follows := before != nil && before.rules != nil && before.rules == memo.rules
	after, changed := memo.index(c, set.RouteTable, policies, before)
	if follows {
		s.changes = rulesChanges{before.rules, before.Revision, slices.Sorted(maps.Keys(changed))}
		s.Rules = rulesAfter(before.Rules, changed)
	} else {
		s.Rules = rulesOf(after)
	}
	for key, problem := range memo.failed {
		s.Problems[key] = []compile.Problem{*problem}
	}
	s.Encoded = c.encode(set, after)
	s.rules = &rulesVersion{}
	memo.rules = s.rules
	return s
}

// encode encodes the rule set of the policies, which are in the order of their rules.
func (c Compiler) encode(set rules.Set, policies []*indexedPolicy) rules.Encoded {
	if c.Whole {
		return rules.Whole(set)
	}
	revisions := make([]string, 0, len(set.Rules)) // of the policy of each rule
	for i := range policies {
		for range policies[i].Rules {
			revisions = append(revisions, policies[i].revision)
		}
	}
	encoder := cmp.Or(c.Encoder, new(rules.Encoder))
	return encoder.Encode(set, func(i int) string { return revisions[i] })
}

// rulesOf returns the rules of the policies that have an effective form.
func rulesOf(policies []*indexedPolicy) map[string]Rule {
	all := make(map[string]Rule, len(policies))
	for _, p := range policies {
		if p.problem == nil {
			all[p.Policy] = p.rule
		}
	}
	return all
}

// rulesAfter is rulesOf for policies that differ in a few from those before.
func rulesAfter(before map[string]Rule, changed map[string]*indexedPolicy) map[string]Rule {
	if len(changed) == 0 {
		return before
	}
	all := maps.Clone(before)
	for policy, p := range changed {
		if p != nil && p.problem == nil {
			all[policy] = p.rule
		} else {
			delete(all, policy)
		}
	}
	return all
}

func (c Compiler) effective(own []rules.Rule) (v1alpha1.EffectivePolicy, error) {
	var effective v1alpha1.EffectivePolicy
	var limits []string
	for i := range own {
		rule := &own[i]
		keys, err := rule.KeySpace(c.KeyPrefix + "*:") // any counter group
		if err != nil {
			return v1alpha1.EffectivePolicy{}, fmt.Errorf("build the Redis keys: %w", err)
		}
		rate := v1alpha1.EffectiveRate{
			Policy:     rule.Policy,
			Algorithm:  v1alpha1.Algorithm(rule.Algorithm),
			Window:     window.Format(time.Duration(rule.WindowSeconds) * time.Second),
			KeyPattern: keys.Pattern(),
		}
		if !rule.TiersOnly {
			rate.Limit = new(rule.Units)
			limits = append(limits, fmt.Sprintf("%d per %s", rule.Units, rate.Window))
		}
		effective.Rates = append(effective.Rates, rate)
	}
	effective.Summary = strings.Join(limits, ", ")
	slices.SortStableFunc(effective.Rates, func(a, b v1alpha1.EffectiveRate) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	return effective, nil
}

// rankOf puts the rates of requests in no tier first, so that the columns of kubectl get agree.
func rankOf(r v1alpha1.EffectiveRate) int {
	if r.Limit == nil {
		return 1
	}
	return 0
}

// rule returns the rule of the policy with that name. A nil RuleSet has no rules.
func (s *RuleSet) rule(policy string) (Rule, bool) {
	if s == nil {
		return Rule{}, false
	}
	rule, ok := s.Rules[policy]
	return rule, ok
}

// RuleRevisions returns the revision of each policy's rule.
func (s *RuleSet) RuleRevisions() map[string]string {
	revisions := make(map[string]string, len(s.Rules))
	for policy, rule := range s.Rules {
		revisions[policy] = rule.Revision
	}
	return revisions
}

// RuleRevisionsAfter is RuleRevisions with those of another rule set, which it does not change.
func (s *RuleSet) RuleRevisionsAfter(before *RuleSet, revisions map[string]string) map[string]string {
	revisions = maps.Clone(revisions)
	s.RuleDifferences(before, func(policy string) {
		if rule, exists := s.Rules[policy]; exists {
			revisions[policy] = rule.Revision
		} else {
			delete(revisions, policy)
		}
	})
	return revisions
}

// IsIncludedIn reports whether the rules with these revisions, by policy, include all rules of the set.
func (s *RuleSet) IsIncludedIn(revisions map[string]string) bool {
	for _, policy := range s.changes.policies { // most likely to differ
		if rule, exists := s.Rules[policy]; exists && revisions[policy] != rule.Revision {
			return false
		}
	}
	for policy, rule := range s.Rules {
		if revisions[policy] != rule.Revision {
			return false
		}
	}
	return true
}
