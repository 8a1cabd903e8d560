package matching

import (
	"iter"
	"reflect"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/persistent"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/route"
	"github.com/weir-dev/weir/limiter/rules/tables"
)

// Index is a Set compiled for matching. It maps domain, host and path (or descriptors) to rules, so that a request is compared only with
// the rules for its domain, host and path. A write to the Kubernetes API is compared only with the rules for its namespace, resource and
// operation. An Index is safe for concurrent use. It is immutable except for the paths that it has seen, see [Matched.Endpoint].
type Index struct {
	revision   string
	set        *rules.Sharded
	compiler   compiler
	version    persistent.Version // higher than that of every index from which it was updated
	rules      persistent.Sorted[*Compiled]
	policies   persistent.Sorted[*string] // their names, see NumberOf
	tables     tables.Tables[*Compiled]
	namespaces persistent.Map[string, *rules.Namespace] // of the cluster
	scopes     scopes
	routes     *route.Table     // nil without a table
	clock      func() time.Time // used only if a rule has seen too many paths
}

// Revision returns the revision of the Set.
func (x *Index) Revision() string { return x.revision }

// UseClock replaces time.Now, for requests of another time. Call it before the first Match.
func (x *Index) UseClock(clock func() time.Time) { x.clock = clock }

// Len returns the number of rules.
func (x *Index) Len() int { return x.rules.Len() }

// Rules returns the rules, sorted by policy.
func (x *Index) Rules() iter.Seq[*Compiled] { return x.rules.All() }

// Policies yields the names of the rules' policies, sorted.
func (x *Index) Policies() iter.Seq[string] {
	return func(yield func(string) bool) {
		for c := range x.rules.All() {
			if !yield(c.Policy) {
				return
			}
		}
	}
}

// RuleOf returns the rule of a policy, if there is one.
func (x *Index) RuleOf(policy string) (c *Compiled, found bool) {
	c = x.rules.Find(func(c *Compiled) int { return strings.Compare(c.Policy, policy) })
	return c, c != nil
}

// Change is a rule in which two indexes differ. A rule that both have is the same pointer if it is equal, also if SharesTierSeries differs.
type Change struct {
	Old *Compiled // nil: the rule was added
	New *Compiled // nil: the rule was removed
}

// Changes returns the rules in which x differs from the previous index, which can be nil. Its cost grows with the differences if x was updated from it.
func (x *Index) Changes(previous *Index) (changes []Change) {
	if previous == nil {
		previous = &Index{}
	}
	for before, after := range persistent.Changes(&previous.rules, &x.rules, compareRules) {
		changes = append(changes, Change{before, after})
	}
	for policy := range x.scopes.relabeled(&previous.scopes) {
		before, _ := previous.RuleOf(policy)
		if c, found := x.RuleOf(policy); found && c == before {
			changes = append(changes, Change{c, c})
		}
	}
	return changes
}

// Inherit takes over what the previous index has of rules that are equal, or have the same counters. Stores then know which rules have not
// changed, and no rule counts other paths than before: after each change of a policy it could count another 1000. x can have been in use before:
// all of its rules that differ from those of the previous index have changed then. Rules are found by their counters: the name changes with rates.
func (x *Index) Inherit(previous *Index) {
	byCounters, changes := map[string]*Compiled{}, x.Changes(previous)
	for _, change := range changes {
		if change.Old != nil {
			byCounters[change.Old.Keys.SharedKey("")] = change.Old
		}
	}
	for _, change := range changes {
		c := change.New
		if c == nil || c == change.Old {
			continue
		}
		old, found := byCounters[c.Keys.SharedKey("")]
		if found && reflect.DeepEqual(&old.Rule, &c.Rule) {
			c.counted.Store(old.Counted())
		} else {
			c.counted.Store(c.newCounted())
		}
		if found && c.endpoints != nil && old.endpoints != nil && c.endpoints != old.endpoints {
			c.endpoints = old.endpoints
		}
	}
}

// RoutesOf returns the route that takes the request, from the table of routes. The result is empty without a table, or if no route takes it.
//
// Several routes mean that the request can belong to each of them, because of the port at which it arrived, or because a header or a regular
// expression could not be compared exactly. The caller must count it for all of them: otherwise, a client could choose the route that it counts for.
// The caller must reject requests of [route.TooMany].
func (x *Index) RoutesOf(r *route.Request) []rules.Route {
	if x == nil || x.routes == nil {
		return nil
	}
	return x.routes.Find(r)
}

// Declaration returns the rule of the Set.
func (c *Compiled) Declaration() *rules.Rule { return &c.Rule }

// compareRules compares rules in the order of an Index.
func compareRules(a, b *Compiled) int { return strings.Compare(a.Policy, b.Policy) }
