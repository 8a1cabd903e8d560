package selection

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
)

// Differences calls policy for each policy of which two rule sets have something different that a status depends on, and object for each object that
// is selected in only one of them, or in another generation. It can call them more than once for one policy.
func (s *RuleSet) Differences(before *RuleSet, policy func(Key), object func(types.UID)) {
	if s == before {
		return
	}
	byName := func(name string) { policy(Key{Name: name}); policy(Key{name, true}) }
	s.selectionDifferences(before, object)
	s.RuleDifferences(before, byName)
	MapDifferences(before.Overridden, s.Overridden, func(a, b Overridden) bool {
		return a.Reason == b.Reason && a.Message == b.Message && a.Domains == b.Domains && slices.Equal(a.By, b.By)
	}, byName)
	MapDifferences(before.Problems, s.Problems, slices.Equal[[]compile.Problem], policy)
	MapDifferences(before.Targets, s.Targets, equalTargets, policy)
	MapDifferences(before.Unmatched, s.Unmatched, func(a, b compile.Unmatched) bool { return a == b }, policy)
	MapDifferences(before.Kept, s.Kept, func(a, b bool) bool { return a == b }, policy)
}

// rulesVersion identifies the Rules of a rule set by its address.
type rulesVersion struct{ _ byte }

// rulesChanges are the policies whose rules may be others than in an earlier version.
type rulesChanges struct {
	since    *rulesVersion
	revision string // of that rule set
	policies []string
}

// selectionChanges are the policies whose generations may be others than in an earlier selection.
type selectionChanges struct {
	since    map[types.UID]int64
	policies []types.UID
}

// selectionDifferences calls policy for each policy that is selected in only one of two rule sets, or in another generation.
func (s *RuleSet) selectionDifferences(before *RuleSet, policy func(types.UID)) {
	if s.selected.since == nil || !isSameMap(s.selected.since, before.Policies) {
		MapDifferences(before.Policies, s.Policies, func(a, b int64) bool { return a == b }, policy)
		return
	}
	for _, uid := range s.selected.policies {
		a, was := before.Policies[uid]
		b, is := s.Policies[uid]
		if was != is || a != b {
			policy(uid)
		}
	}
}

// ChangedSince returns the names of the policies that may have other rules than in the rule set of that revision, and whether they are known: s was
// compiled right after it.
func (s *RuleSet) ChangedSince(revision string) (policies []string, known bool) {
	if s.changes.since == nil || s.changes.revision != revision {
		return nil, false
	}
	return s.changes.policies, true
}

// RuleDifferences calls policy with the name of each policy that has another rule in s than in before. It compares all rules unless s was compiled right
// after before.
func (s *RuleSet) RuleDifferences(before *RuleSet, policy func(string)) {
	if s.rules != nil && s.rules == before.rules {
		return
	}
	equal := func(a, b Rule) bool {
		return a.Revision == b.Revision && a.Effective.MatchedBy == b.Effective.MatchedBy
	}
	if s.changes.since == nil || s.changes.since != before.rules {
		MapDifferences(before.Rules, s.Rules, equal, policy)
		return
	}
	for _, name := range s.changes.policies {
		a, was := before.Rules[name]
		b, is := s.Rules[name]
		if was != is || !equal(a, b) {
			policy(name)
		}
	}
}

// equalTargets reports whether a status has the same of both.
func equalTargets(a, b []gateway.Target) bool {
	if len(a) > 0 && len(b) > 0 && &a[0] == &b[0] {
		return len(a) == len(b)
	}
	return slices.EqualFunc(a, b, func(a, b gateway.Target) bool {
		return a.Reason == b.Reason && a.Idle == b.Idle && a.Message == b.Message
	})
}

// EqualMaps is [maps.Equal] that does not compare a map with itself: what does not change keeps its memory.
func EqualMaps[K, V comparable](a, b map[K]V) bool { return isSameMap(a, b) || maps.Equal(a, b) }

func isSameMap[K comparable, V any](a, b map[K]V) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// MapDifferences calls add for each key whose values differ.
func MapDifferences[K comparable, V any](a, b map[K]V, equal func(a, b V) bool, add func(K)) {
	if isSameMap(a, b) {
		return
	}
	common := 0
	for key, value := range b {
		other, exists := a[key]
		if exists {
			common++
		}
		if !exists || !equal(other, value) {
			add(key)
		}
	}
	if common == len(a) {
		return
	}
	for key := range a {
		if _, exists := b[key]; !exists {
			add(key)
		}
	}
}
