package ruleset

import "slices"

// knownSets is how many rule sets are remembered: more than replicas are ever apart while one edit follows another.
// A set that is needed and forgotten is read from Redis again.
const knownSets = 16

// known remembers which rules the latest rule sets hold.
type known struct {
	sets []knownSet // the one used last stands last
}

type knownSet struct {
	revision string
	rules    map[string]string // revision of each policy's rule
}

// learn notes the rules of a set, in the stead of what was known of it: what Redis holds may be damaged, what was just
// compiled is not.
func (k *known) learn(revision string, rules map[string]string) {
	k.sets = slices.DeleteFunc(k.sets, func(s knownSet) bool { return s.revision == revision })
	if len(k.sets) == knownSets {
		k.sets = slices.Delete(k.sets, 0, 1)
	}
	k.sets = append(k.sets, knownSet{revision, rules})
}

func (k *known) recall(revision string) (rules map[string]string, ok bool) {
	i := slices.IndexFunc(k.sets, func(s knownSet) bool { return s.revision == revision })
	if i < 0 {
		return nil, false
	}
	s := k.sets[i]
	k.sets = append(slices.Delete(k.sets, i, i+1), s)
	return s.rules, true
}
