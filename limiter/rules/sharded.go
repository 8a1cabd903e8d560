package rules

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// ShardCount is the number of shards of a Set. An edit changes one of them, so its cost grows with the policies of a shard. A change of this number
// changes every shard, and needs a new format version.
const ShardCount = 256

// Sharded is a Set in shards. It is immutable: versions of it share the shards that are equal.
type Sharded struct {
	// HashKey and RouteTable are those of the Set.
	HashKey    string
	RouteTable *RouteTable
	// Shards of the Set, by [ShardOf] of their names; nil for an empty one.
	Shards [ShardCount]*Shard

	routeTable Part // of RouteTable, if it was decoded
}

// Shard is the part of a Set whose names have one number: rules by the name of their policy, namespaces and ages by the name of the namespace.
// Its fields are those of the Set.
type Shard struct {
	Rules      []Rule              `json:"rules,omitempty"`
	Namespaces []Namespace         `json:"namespaces,omitempty"`
	ByAge      map[string][]string `json:"byAge,omitempty"`

	part Part // if it was decoded
}

// ShardOf returns the number of the shard of a policy, without the rate, or of a namespace.
func ShardOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // a hash returns no errors
	return int(h.Sum32() % ShardCount)
}

// Split returns the Set in shards. The rules can be in any order.
func Split(set Set) *Sharded {
	if byPolicy := func(a, b Rule) int { return strings.Compare(a.Policy, b.Policy) }; !slices.IsSortedFunc(set.Rules, byPolicy) {
		set.Rules = slices.SortedStableFunc(slices.Values(set.Rules), byPolicy)
	}
	s := &Sharded{HashKey: set.HashKey, RouteTable: set.RouteTable}
	for i := range set.Rules {
		shard := s.shard(set.Rules[i].PolicyName())
		shard.Rules = append(shard.Rules, set.Rules[i])
	}
	for _, n := range set.Namespaces {
		shard := s.shard(n.Name)
		shard.Namespaces = append(shard.Namespaces, n)
	}
	for scope, names := range set.ByAge {
		shard := s.shard(scope)
		if shard.ByAge == nil {
			shard.ByAge = map[string][]string{}
		}
		shard.ByAge[scope] = names
	}
	return s
}

// shard returns the shard of a name, and adds it if it is empty.
func (s *Sharded) shard(name string) *Shard {
	number := ShardOf(name)
	if s.Shards[number] == nil {
		s.Shards[number] = &Shard{}
	}
	return s.Shards[number]
}

// Set returns the Set that the shards have together.
func (s *Sharded) Set() Set {
	set := Set{Rules: []Rule{}, HashKey: s.HashKey, RouteTable: s.RouteTable}
	for _, shard := range s.Shards {
		if shard == nil {
			continue
		}
		set.Rules = append(set.Rules, shard.Rules...)
		set.Namespaces = append(set.Namespaces, shard.Namespaces...)
		for scope, names := range shard.ByAge {
			if set.ByAge == nil {
				set.ByAge = map[string][]string{}
			}
			set.ByAge[scope] = names
		}
	}
	slices.SortFunc(set.Rules, func(a, b Rule) int { return strings.Compare(a.Policy, b.Policy) })
	slices.SortFunc(set.Namespaces, func(a, b Namespace) int { return strings.Compare(a.Name, b.Name) })
	return set
}

// validate returns an error if the shard has something that belongs to another one: two shards could have rules with the same name.
func (s *Shard) validate(number int) error {
	for i := range s.Rules {
		if name := s.Rules[i].PolicyName(); ShardOf(name) != number {
			return fmt.Errorf("it has rule %q, which belongs to shard %d", s.Rules[i].Policy, ShardOf(name))
		}
	}
	for i := range s.Namespaces {
		if name := s.Namespaces[i].Name; ShardOf(name) != number {
			return fmt.Errorf("it has namespace %q, which belongs to shard %d", name, ShardOf(name))
		}
	}
	for scope := range s.ByAge {
		if ShardOf(scope) != number {
			return fmt.Errorf("it has the ages of %q, which belong to shard %d", scope, ShardOf(scope))
		}
	}
	return nil
}
