package ruleset

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/internal/compile"
)

// unselected remembers what the policies come out as that no Limiter selects: that one is invalid is told all the same.
type unselected struct {
	input    map[types.UID]int64 // generations of these policies
	problems map[key][]compile.Problem
}

// compile brings u up to date. What compiles does so for the identity table of a Limiter that says nothing else.
func (u *unselected) compile(of gathered, policies []policy, standings []standing) {
	input := map[types.UID]int64{}
	for _, p := range policies {
		if !selected(p.GetUID(), standings) {
			input[p.GetUID()] = p.GetGeneration()
		}
	}
	if u.isOf(input) {
		return
	}
	*u = unselected{input: input, problems: map[key][]compile.Problem{}}
	if len(input) == 0 {
		return
	}
	nobodys := compile.Policies{Namespaces: of.Namespaces}
	for i := range of.Namespaced {
		if _, is := input[of.Namespaced[i].UID]; is {
			nobodys.Namespaced = append(nobodys.Namespaced, of.Namespaced[i])
		}
	}
	for i := range of.Cluster {
		if _, is := input[of.Cluster[i].UID]; is {
			nobodys.Cluster = append(nobodys.Cluster, of.Cluster[i])
		}
	}
	for _, p := range nobodys.Compile(compile.DefaultIdentity()).Problems {
		k := key{p.Policy, p.Cluster}
		u.problems[k] = append(u.problems[k], p)
	}
}

func (u *unselected) isOf(input map[types.UID]int64) bool {
	if u.problems == nil || len(u.input) != len(input) {
		return false
	}
	for uid, generation := range input {
		if known, is := u.input[uid]; !is || known != generation {
			return false
		}
	}
	return true
}

func selected(policy types.UID, standings []standing) bool {
	for i := range standings {
		if _, is := standings[i].compiled.input[policy]; is {
			return true
		}
	}
	return false
}
