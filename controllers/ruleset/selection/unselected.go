package selection

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
)

// Unselected holds the problems of the policies that no Limiter selects. They are compiled too, so that an invalid policy is
// reported as invalid.
type Unselected struct {
	listed       stored.Policies
	ruleSets     []*RuleSet
	generations  map[types.UID]int64 // of these policies
	gatewaysHash uint64
	problems     map[Key][]compile.Problem
	targets      map[Key][]gateway.Target
	compiled     uint64 // how often
}

// Compile compiles the policies that none of the rule sets selects, unless they are the same as in the last call. It uses the identity settings that a
// Limiter has by default.
func (u *Unselected) Compile(inputs Inputs, ruleSets []*RuleSet) {
	generations := u.update(inputs.Policies, ruleSets)
	if u.problems != nil && EqualMaps(u.generations, generations) && u.gatewaysHash == inputs.GatewaysHash {
		return
	}
	*u = Unselected{
		listed: u.listed, ruleSets: u.ruleSets, generations: generations, gatewaysHash: inputs.GatewaysHash,
		problems: map[Key][]compile.Problem{}, compiled: u.compiled + 1,
	}
	if len(generations) == 0 {
		return
	}
	unselected := stored.Policies{Namespaces: inputs.Namespaces, Gateways: inputs.Gateways}
	for i := range inputs.Namespaced {
		if _, ok := generations[inputs.Namespaced[i].UID]; ok {
			unselected.Namespaced = append(unselected.Namespaced, inputs.Namespaced[i])
		}
	}
	for i := range inputs.Cluster {
		if _, ok := generations[inputs.Cluster[i].UID]; ok {
			unselected.Cluster = append(unselected.Cluster, inputs.Cluster[i])
		}
	}
	result := unselected.Compile(compile.DefaultIdentity())
	u.targets = targetsByPolicy(result.Attachments)
	for _, p := range result.Problems {
		k := Key{p.Policy, p.Cluster}
		u.problems[k] = append(u.problems[k], p)
	}
}

// update returns the generations of the policies that none of the rule sets selects. It returns those of the last call if nothing differs.
func (u *Unselected) update(listed stored.Policies, ruleSets []*RuleSet) map[types.UID]int64 {
	selected := func(policy types.UID) bool {
		return slices.ContainsFunc(ruleSets, func(s *RuleSet) bool { _, is := s.Policies[policy]; return is })
	}
	isSame := u.problems != nil && u.isSame(listed, ruleSets, selected)
	if u.listed, u.ruleSets = listed, ruleSets; isSame {
		return u.generations
	}
	generations := map[types.UID]int64{}
	for p := range Objects(listed) {
		if !selected(p.UID) {
			generations[p.UID] = p.Generation
		}
	}
	return generations
}

// isSame reports whether the generations of the last call are those of the policies that are not selected now. It looks at the policies that have changed.
func (u *Unselected) isSame(listed stored.Policies, ruleSets []*RuleSet, selected func(types.UID) bool) bool {
	if len(ruleSets) != len(u.ruleSets) {
		return false
	}
	isSame := true
	exist := map[types.UID]bool{} // policies that have changed
	gone, added := Changes(u.listed, listed)
	for _, o := range added {
		exist[o.UID] = true
		generation, was := u.generations[o.UID]
		isSame = isSame && was != selected(o.UID) && (!was || generation == o.Generation)
	}
	for _, o := range gone {
		_, was := u.generations[o.UID]
		isSame = isSame && (exist[o.UID] || !was)
	}
	for i, s := range ruleSets {
		s.selectionDifferences(u.ruleSets[i], func(policy types.UID) {
			_, was := u.generations[policy]
			isSame = isSame && was != selected(policy)
		})
	}
	return isSame
}

// Problems returns the problems of the policy as last compiled; nil if it is valid or a Limiter selects it.
func (u *Unselected) Problems(policy Key) []compile.Problem { return u.problems[policy] }

// Targets returns the targets of the policy as last compiled.
func (u *Unselected) Targets(policy Key) []gateway.Target { return u.targets[policy] }

// Compiled returns how often the policies were compiled: the same number stands for the same problems and targets.
func (u *Unselected) Compiled() uint64 { return u.compiled }

// Policies returns the generations of the policies that no Limiter selects.
func (u *Unselected) Policies() map[types.UID]int64 { return u.generations }
