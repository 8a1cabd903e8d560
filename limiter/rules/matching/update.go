package matching

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/route"
	"github.com/weir-dev/weir/limiter/rules/tables"
)

// Option changes how an Index is made.
type Option func(*compiler)

// WithHashKey sets the key with which secret identifiers are hashed, such as API keys. It is required for a Set with a secret identifier,
// and must be the key with which the Set was compiled.
func WithHashKey(key *limiter.HashKey) Option {
	return func(k *compiler) { k.hashKey = key }
}

// NewIndex compiles set for matching. All keys start with prefix, for example "weir:". The rules can be in any order; an error names the
// invalid rule. A usual expression takes about a tenth of a millisecond to compile. Equal expressions are compiled once.
func NewIndex(set rules.Set, revision, prefix string, options ...Option) (*Index, error) {
	return Update(nil, rules.Split(set), revision, prefix, options...)
}

// Update is [NewIndex] for a Set of which the previous index has an earlier version, or nil. It compiles only the rules that differ, and the indexes
// share all others, and the tables that lead to them. So its cost grows with the rules of the shards that are not the same pointers in both versions.
// The previous index does not change.
func Update(previous *Index, set *rules.Sharded, revision, prefix string, options ...Option) (*Index, error) {
	k := compiler{prefix: prefix}
	for _, option := range options {
		option(&k)
	}
	switch {
	case previous == nil:
		k.expressions = expr.NewCache()
		previous = &Index{set: &rules.Sharded{}, clock: time.Now}
	case !previous.compiler.makesKeysOf(&k):
		k.expressions = previous.compiler.expressions
		previous = &Index{set: &rules.Sharded{}, clock: previous.clock}
	default:
		k.expressions = previous.compiler.expressions
	}
	x := new(*previous)
	x.revision, x.set, x.compiler, x.version = revision, set, k, previous.version+1
	changed := differing(previous.set, set)
	for _, step := range []func(previous *Index, changed []changedShard) error{x.updateRules, x.updateScopes, x.updateNamespaces, x.updateRoutes} {
		if err := step(previous, changed); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// changedShard has two versions of a shard. Neither is nil.
type changedShard struct{ before, after *rules.Shard }

// differing returns the shards that are not the same pointers.
func differing(before, after *rules.Sharded) (changed []changedShard) {
	present := func(s *rules.Shard) *rules.Shard {
		if s == nil {
			return &rules.Shard{}
		}
		return s
	}
	for i := range after.Shards {
		if before.Shards[i] != after.Shards[i] {
			changed = append(changed, changedShard{present(before.Shards[i]), present(after.Shards[i])})
		}
	}
	return changed
}

func (x *Index) updateRules(previous *Index, changed []changedShard) error {
	var removed []*Compiled
	var differ []*rules.Rule
	for _, shard := range changed {
		replaced := make(map[string]*rules.Rule, len(shard.before.Rules))
		for i := range shard.before.Rules {
			r := &shard.before.Rules[i]
			replaced[r.Policy] = r
		}
		for i := range shard.after.Rules {
			r := &shard.after.Rules[i]
			if before := replaced[r.Policy]; before != nil && reflect.DeepEqual(before, r) {
				delete(replaced, r.Policy)
			} else {
				differ = append(differ, r)
			}
		}
		for policy := range replaced {
			c, _ := previous.RuleOf(policy)
			removed = append(removed, c)
		}
	}
	for _, c := range removed {
		x.removeRule(c)
	}
	if previous.set.HashKey != x.set.HashKey {
		for c := range x.rules.All() {
			if err := x.compiler.validateHashKey(&c.Rule, x.set.HashKey); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(differ, func(a, b *rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	for _, r := range differ {
		if err := x.compiler.validateHashKey(r, x.set.HashKey); err != nil {
			return err
		}
		c, err := x.compiler.compile(*r)
		if err != nil {
			return fmt.Errorf("rule %s: %w", r.Policy, err)
		}
		if !x.addRule(c) {
			return fmt.Errorf("rule %s: another rule has this name", r.Policy)
		}
	}
	for _, c := range removed {
		if !x.hasPolicy(c.policyName) {
			x.policies.Delete(x.version, comparePolicies(c.policyName))
		}
	}
	return nil
}

// addRule reports false if another rule has the name.
func (x *Index) addRule(c *Compiled) bool {
	if !x.rules.Insert(x.version, c, func(other *Compiled) int { return compareRules(other, c) }) {
		return false
	}
	x.policies.Insert(x.version, new(c.policyName), comparePolicies(c.policyName))
	(&tables.Edit[*Compiled]{Version: x.version, Rule: c, Match: &c.Match}).Apply(&x.tables)
	return true
}

func (x *Index) removeRule(c *Compiled) {
	x.rules.Delete(x.version, func(other *Compiled) int { return compareRules(other, c) })
	(&tables.Edit[*Compiled]{Version: x.version, Rule: c, Match: &c.Match, Removes: true}).Apply(&x.tables)
}

// updateNamespaces updates what is known about namespaces. Equal facts stay the same pointers.
func (x *Index) updateNamespaces(_ *Index, changed []changedShard) error {
	known := &x.namespaces
	for _, shard := range changed {
		for _, n := range shard.before.Namespaces {
			if !slices.ContainsFunc(shard.after.Namespaces, func(other rules.Namespace) bool { return other.Name == n.Name }) {
				known.Delete(x.version, n.Name)
			}
		}
	}
	for _, shard := range changed {
		for _, n := range shard.after.Namespaces {
			if before := known.Get(n.Name); before == nil || !reflect.DeepEqual(*before, n) {
				known.Set(x.version, n.Name, new(n))
			}
		}
	}
	return nil
}

func (x *Index) updateRoutes(previous *Index, _ []changedShard) (err error) {
	if before, after := previous.set.RouteTable, x.set.RouteTable; before != after && !reflect.DeepEqual(before, after) {
		x.routes, err = route.Compile(after)
	}
	return err
}
