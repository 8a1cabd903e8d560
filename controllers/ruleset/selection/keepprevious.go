package selection

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

// KeepPrevious returns the rule set for a Limiter whose selectors have become invalid: s, without the policies that do not
// compile. It is unknown whether those are still selected; they are reported as policies that no Limiter selects. It returns
// s if s is such a rule set already.
//
// The API server rejects a Limiter with an invalid selector. A Limiter that was stored before the CRD had that validation can
// still have one. It is unknown which policies such a selector means, and to select no policy would lift every limit.
func (s *RuleSet) KeepPrevious(policies []Policy) *RuleSet {
	if s.kept {
		return s
	}
	kept := *s
	kept.kept, kept.Problems = true, map[Key][]compile.Problem{}
	kept.Policies, kept.selected = maps.Clone(s.Policies), selectionChanges{}
	for _, p := range policies {
		if len(s.Problems[p.Key()]) > 0 {
			delete(kept.Policies, p.GetUID())
		}
	}
	return &kept
}

// Encode returns s, encoded as the Compiler encodes rule sets. It returns s itself if it is.
func (c Compiler) Encode(s *RuleSet) (*RuleSet, error) {
	if s.Whole == c.Whole {
		return s, nil
	}
	data, err := s.Archive()
	if err != nil {
		return nil, err
	}
	set, err := rules.DecodeAs(data, s.Revision)
	if err != nil {
		return nil, err
	}
	again := *s
	again.Encoded = c.indexSet(set).Encoded
	return &again, nil
}

// Restore returns the rule set for a Limiter whose selectors are invalid, after a restart of the operator: the rule set that
// is active, by its data and revision. It fails if the data is damaged.
func (c Compiler) Restore(limiter *v1alpha1.Limiter, inputs Inputs, data []byte, revision string) (*RuleSet, error) {
	set, encoded, err := rules.DecodeEncoded(data)
	if err != nil {
		return nil, err
	}
	if encoded.Revision != revision {
		return nil, fmt.Errorf("the revision of the data is %s", encoded.Revision)
	}
	s := c.indexSet(set)
	s.Policies = map[types.UID]int64{}
	s.kept, s.Limiter = true, VersionOf(limiter)
	s.Encoded = encoded // another version of the operator may encode the same rules differently
	s.findPolicies(inputs, set, c.identity(limiter))
	return s, nil
}

// indexSet returns the rule set without policies, as index.
func (c Compiler) indexSet(set rules.Set) *RuleSet {
	var policies []*compile.Compiled
	for policy, own := range set.Policies() {
		policies = append(policies, &compile.Compiled{Policy: policy, Cluster: own[0].Domain == "", Rules: own})
	}
	return c.index(new(Memo), set, policies, nil)
}

// keepTargets marks the policies that keep their previous rules, and their targets in before, while the objects that they target cannot be read.
// The generation of a policy that was edited since is 0, as after Restore.
func (s *RuleSet) keepTargets(before *RuleSet, selected stored.Policies, kept []compile.Kept) {
	if len(kept) == 0 {
		return
	}
	if why := selected.Gateways.Unreadable; !errors.Is(why, gateway.ErrGatewaysPending) {
		s.Unreadable = why.Error()
	}
	if before != nil && before.Limiter.UID != s.Limiter.UID {
		before = nil
	}
	s.Kept = map[Key]bool{}
	outdated := map[Key]bool{}
	for _, k := range kept {
		key := Key{k.Policy, k.Cluster}
		s.Kept[key], outdated[key] = true, k.Outdated
	}
	if s.Targets == nil {
		s.Targets = map[Key][]gateway.Target{}
	}
	s.Policies, s.selected = maps.Clone(s.Policies), selectionChanges{}
	for _, p := range List(selected) {
		if !s.Kept[p.Key()] {
			continue
		}
		if before != nil && len(before.Targets[p.Key()]) > 0 {
			s.Targets[p.Key()] = before.Targets[p.Key()]
		}
		if outdated[p.Key()] || before != nil && before.Policies[p.GetUID()] != p.GetGeneration() {
			s.Policies[p.GetUID()] = 0
		}
	}
}

// findPolicies finds the policies that the rules of a restored set were compiled from. The generation of a policy whose
// rule differs from the restored one is 0: it was edited since.
func (s *RuleSet) findPolicies(inputs Inputs, set rules.Set, identity compile.Identity) {
	hasRule := func(policy string) bool { _, ok := s.Rules[policy]; return ok }
	found := stored.Policies{Namespaces: inputs.Namespaces, Gateways: inputs.Gateways}
	if inputs.Unreadable() {
		found.Gateways = &gateway.Objects{Unreadable: inputs.Gateways.Unreadable, Previous: set}
	}
	for i := range inputs.Namespaced {
		if hasRule(stored.Name(inputs.Namespaced[i])) {
			found.Namespaced = append(found.Namespaced, inputs.Namespaced[i])
		}
	}
	for i := range inputs.Cluster {
		if hasRule(stored.ClusterName(inputs.Cluster[i])) {
			found.Cluster = append(found.Cluster, inputs.Cluster[i])
		}
	}
	result := found.Compile(identity)
	s.Overridden, s.Targets, s.Unmatched = new(Memo).overriddenByPolicy(result.Overrides), targetsByPolicy(result.Attachments), unmatchedByPolicy(result.Unmatched)
	unchanged := map[string]bool{}
	for policy, own := range result.Set.Policies() {
		unchanged[policy] = rules.PolicyRevision(own) == s.Rules[policy].Revision
	}
	for _, k := range result.Kept {
		unchanged[k.Policy] = unchanged[k.Policy] && !k.Outdated
	}
	for _, p := range List(found) {
		s.Policies[p.GetUID()] = 0
		if unchanged[p.Name] {
			s.Policies[p.GetUID()] = p.GetGeneration()
		}
	}
}
