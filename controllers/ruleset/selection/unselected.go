package selection

import (
	"maps"
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
	selections   []map[types.UID]int64
	generations  map[types.UID]int64 // of these policies
	gatewaysHash uint64
	problems     map[Key][]compile.Problem
	targets      map[Key][]gateway.Target
	compiled     uint64 // how often
}

// Compile compiles the policies that are in none of the selections, unless they are the same as in the last call. A selection is [RuleSet.Policies]. It
// uses the identity settings that a Limiter has by default.
func (u *Unselected) Compile(inputs Inputs, selections []map[types.UID]int64) {
	isSame := u.gatewaysHash == inputs.GatewaysHash && slices.EqualFunc(u.selections, selections, isSameMap[types.UID, int64]) &&
		slices.Equal(u.listed.Namespaced, inputs.Namespaced) && slices.Equal(u.listed.Cluster, inputs.Cluster)
	if u.problems != nil && isSame {
		return
	}
	u.listed, u.selections = inputs.Policies, selections
	selected := func(policy types.UID) bool {
		return slices.ContainsFunc(selections, func(of map[types.UID]int64) bool { _, is := of[policy]; return is })
	}
	generations := map[types.UID]int64{}
	for p := range Objects(inputs.Policies) {
		if !selected(p.UID) {
			generations[p.UID] = p.Generation
		}
	}
	if u.problems != nil && maps.Equal(u.generations, generations) && u.gatewaysHash == inputs.GatewaysHash {
		return
	}
	*u = Unselected{
		listed: u.listed, selections: u.selections, generations: generations, gatewaysHash: inputs.GatewaysHash, problems: map[Key][]compile.Problem{}, compiled: u.compiled + 1,
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

// Problems returns the problems of the policy as last compiled; nil if it is valid or a Limiter selects it.
func (u *Unselected) Problems(policy Key) []compile.Problem { return u.problems[policy] }

// Targets returns the targets of the policy as last compiled.
func (u *Unselected) Targets(policy Key) []gateway.Target { return u.targets[policy] }

// Compiled returns how often the policies were compiled: the same number stands for the same problems and targets.
func (u *Unselected) Compiled() uint64 { return u.compiled }

// Policies returns the generations of the policies that no Limiter selects.
func (u *Unselected) Policies() map[types.UID]int64 { return u.generations }
