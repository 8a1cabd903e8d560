package redundancy

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Index finds the rules that can make a rule redundant, without a comparison with all rules. A rule is at the places that follow from what [IsRedundant]
// compares: a rule that makes another one redundant is at one of the few places that follow from the other one. The rules of an owner must not change.
// It is not safe for concurrent use.
type Index[O comparable] struct {
	compare func(a, b O) int
	places  map[uint64][]placed[O] // by the hash of the place, in the order of the owners
}

type placed[O comparable] struct {
	owner O
	rule  *rules.Rule
}

// NewIndex returns an Index of owners in that order.
func NewIndex[O comparable](compare func(a, b O) int) *Index[O] {
	return &Index[O]{compare: compare, places: map[uint64][]placed[O]{}}
}

// Add adds the rules of an owner that is not in the Index.
func (x *Index[O]) Add(owner O, own []rules.Rule) {
	for i := range own {
		rule := &own[i]
		for _, place := range placesOf(rule) {
			list := x.places[place]
			at, _ := slices.BinarySearchFunc(list, owner, func(p placed[O], owner O) int { return x.compare(p.owner, owner) })
			x.places[place] = slices.Insert(list, at, placed[O]{owner, rule})
		}
	}
}

// Remove removes an owner with the rules with which it was added.
func (x *Index[O]) Remove(owner O, own []rules.Rule) {
	for i := range own {
		for _, place := range placesOf(&own[i]) {
			list := x.places[place]
			first, _ := slices.BinarySearchFunc(list, owner, func(p placed[O], owner O) int { return x.compare(p.owner, owner) })
			end := first
			for end < len(list) && list[end].owner == owner {
				end++
			}
			if list = slices.Delete(list, first, end); len(list) == 0 {
				delete(x.places, place)
			} else {
				x.places[place] = list
			}
		}
	}
}

// Len returns the number of places that have a rule.
func (x *Index[O]) Len() int { return len(x.places) }

// First returns the first owner that counts, and of which a rule makes the rule redundant.
func (x *Index[O]) First(rule *rules.Rule, counts func(O) bool) (first O, found bool) {
	for _, place := range placesToSearch(rule) {
		for _, other := range x.places[place] {
			if found && x.compare(other.owner, first) >= 0 {
				break
			}
			if IsRedundant(rule, other.rule) && counts(other.owner) {
				first, found = other.owner, true
				break
			}
		}
	}
	return first, found
}

// place is what [IsRedundant] compares of two rules. A part that is empty is that of a rule which matches any value of it.
type place struct {
	// These are equal.
	axis        string
	identifier  rules.Identifier
	onMissing   rules.OnMissing
	algorithm   limiter.Algorithm
	writes      bool
	descriptors string
	// One rule covers the other one in these.
	path             rules.PathMatch
	host, expression string
	route            rules.Route
}

// placeSeed makes hashes comparable within the process.
var placeSeed = maphash.MakeSeed() //nolint:gochecknoglobals // a constant that Go cannot write as one

// placeOf returns the place of a rule without the parts in which one rule covers another one.
func placeOf(rule *rules.Rule) place {
	p := place{
		axis: rule.Axis, identifier: rule.Identifier, onMissing: rule.OnMissing, algorithm: rule.Algorithm, writes: rule.Match.Kubernetes != nil,
	}
	if len(rule.Match.Descriptors) > 0 {
		p.descriptors = fmt.Sprintf("%q", rule.Match.Descriptors)
	}
	return p
}

// The bounds of the places of one rule. A part of a rule beyond them is as if it matched any value: the rule is compared with more rules.
const (
	maxPlaces   = 32
	maxSegments = 16 // of a path
	maxLabels   = 8  // of a host
)

// placesOf returns the places of a rule that can make another one redundant: one for each value that it matches. It returns nil for a rule that cannot.
func placesOf(wide *rules.Rule) []uint64 {
	if wide.Default || wide.Shadow || len(wide.Tiers) > 0 || wide.TiersOnly || wide.Debt || wide.Lease != nil {
		return nil
	}
	paths, hosts, routes := placesOrAny(wide.Match.Paths, placeOfPath), placesOrAny(wide.Match.Hosts, placeOfHost), orAny(wide.Match.Routes)
	if len(paths)*len(hosts)*len(routes) > maxPlaces {
		hosts, routes = orAny[string](nil), orAny[rules.Route](nil)
	}
	if len(paths)*len(hosts)*len(routes) > maxPlaces {
		paths = orAny[rules.PathMatch](nil)
	}
	all := combine(placeOf(wide), paths, hosts, []string{wide.Match.Expression}, routes)
	slices.Sort(all)
	return slices.Compact(all)
}

// placesToSearch returns the places of the rules that can make the rule redundant: each of them covers the first path, host and route.
func placesToSearch(narrow *rules.Rule) []uint64 {
	m := &narrow.Match
	paths, hosts, expressions, routes := orAny[rules.PathMatch](nil), orAny[string](nil), []string{""}, orAny[rules.Route](nil)
	if len(m.Paths) > 0 {
		paths = append(paths, wider(m.Paths[0])...)
	}
	if len(m.Hosts) > 0 {
		hosts = append(hosts, widerHosts(m.Hosts[0])...)
	}
	if m.Expression != "" {
		expressions = append(expressions, m.Expression)
	}
	if len(m.Routes) > 0 {
		routes = append(routes, m.Routes[0])
	}
	return combine(placeOf(narrow), paths, hosts, expressions, routes)
}

// combine returns the places with each combination of the values.
func combine(p place, paths []rules.PathMatch, hosts, expressions []string, routes []rules.Route) []uint64 {
	all := make([]uint64, 0, len(paths)*len(hosts)*len(expressions)*len(routes))
	for _, p.path = range paths {
		for _, p.host = range hosts {
			for _, p.expression = range expressions {
				for _, p.route = range routes {
					all = append(all, maphash.Comparable(placeSeed, p))
				}
			}
		}
	}
	return all
}

// orAny returns the zero value in place of an empty list, which matches any value.
func orAny[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

func placesOrAny[T any](list []T, placeOf func(T) T) []T {
	places := make([]T, 0, len(list))
	for _, value := range list {
		places = append(places, placeOf(value))
	}
	return orAny(places)
}

// placeOfPath returns the part of a place for a path of a rule. "/v1" and "/v1/" are the same prefix.
func placeOfPath(wide rules.PathMatch) rules.PathMatch {
	if wide.Type == rules.PathPrefix {
		wide.Value = strings.TrimSuffix(wide.Value, "/")
	}
	if strings.Count(wide.Value, "/") > maxSegments {
		return rules.PathMatch{}
	}
	return wide
}

// wider returns the parts of places for the paths that cover a path, see pathCovers.
func wider(narrow rules.PathMatch) []rules.PathMatch {
	all := []rules.PathMatch{placeOfPath(narrow)}
	if narrow.Type == rules.PathRegex {
		return all
	}
	all = append(all, placeOfPath(rules.PathMatch{Type: rules.PathPrefix, Value: narrow.Value}))
	for i, segments := 0, 0; i < len(narrow.Value) && segments <= maxSegments; i++ {
		if narrow.Value[i] == '/' {
			all = append(all, rules.PathMatch{Type: rules.PathPrefix, Value: narrow.Value[:i]})
			segments++
		}
	}
	return all
}

// placeOfHost returns the part of a place for a host of a rule.
func placeOfHost(wide string) string {
	if strings.Count(wide, ".") >= maxLabels || strings.HasPrefix(wide, "*") && !strings.HasPrefix(wide, "*.") {
		return ""
	}
	return wide
}

// widerHosts returns the parts of places for the hosts that cover a host, see hostCovers.
func widerHosts(narrow string) []string {
	all := []string{placeOfHost(narrow)}
	rest := strings.TrimPrefix(narrow, "*")
	for i := range len(rest) {
		if rest[i] == '.' && strings.Count(rest[i:], ".") < maxLabels {
			all = append(all, "*"+rest[i:])
		}
	}
	return all
}
