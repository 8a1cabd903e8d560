package publish

import "slices"

// maxIndexedSets is the number of rule sets in a ruleIndex: more than replicas enforce at the same time while edits follow each
// other. A set that is not in the index is read from Redis.
const maxIndexedSets = 16

// ruleIndex remembers the rules of the rule sets that were used last.
type ruleIndex struct {
	sets []indexedSet // least recently used first
}

type indexedSet struct {
	revision string
	rules    map[string]string // revision of each policy's rule
}

// add adds the rules of a set. It replaces those that the index has: the copy in Redis can be damaged, a set that was just
// compiled is correct.
func (x *ruleIndex) add(revision string, rules map[string]string) {
	x.sets = slices.DeleteFunc(x.sets, func(s indexedSet) bool { return s.revision == revision })
	if len(x.sets) == maxIndexedSets {
		x.sets = slices.Delete(x.sets, 0, 1)
	}
	x.sets = append(x.sets, indexedSet{revision, rules})
}

// get returns the rules of a set, if the index has them.
func (x *ruleIndex) get(revision string) (rules map[string]string, ok bool) {
	i := slices.IndexFunc(x.sets, func(s indexedSet) bool { return s.revision == revision })
	if i < 0 {
		return nil, false
	}
	s := x.sets[i]
	x.sets = append(slices.Delete(x.sets, i, i+1), s)
	return s.rules, true
}
