package matching

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/pattern"
	"github.com/weir-dev/weir/limiter/rules/reading"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// Index is a Set compiled for matching. It maps domain, host and path (or descriptors) to rules, so that a request is compared only with
// the rules for its domain, host and path. A write to the Kubernetes API is compared only with the rules for its namespace, resource and
// operation. An Index is safe for concurrent use. It is immutable except for the paths that it has seen, see [Matched.Endpoint].
type Index struct {
	revision   string
	rules      []Compiled
	domains    map[string]*hostIndex
	everywhere *hostIndex // the rules for all domains; nil if there are no such rules
	kubernetes kubernetesIndex
	routes     *route.Table     // nil without a table
	clock      func() time.Time // used only if a rule has seen too many paths
	// expressions of the rules, for the next index.
	expressions map[expr.Key]*expr.Expression
}

type hostIndex struct {
	exact     map[string]*pathIndex
	wildcard  map[string]*pathIndex // by ".shop.example" for "*.shop.example"
	wildcards pattern.Lengths       // of the keys of wildcard
	any       *pathIndex
	// descriptors has the rules that match a descriptor and have no hosts and paths.
	descriptors descriptorIndex
	routes      routeIndex
}

type pathIndex struct {
	literalPaths

	folded *literalPaths // of the rules that ignore case, see reading.FoldPath; nil without
	regex  []regexRule
	paths  []int // the rules with paths
	any    []int
}

type literalPaths struct {
	exact    map[string][]int
	prefix   map[string][]int // by the prefix without trailing slash; "" for "/"
	prefixes pattern.Lengths  // of the keys of prefix
}

type regexRule struct {
	pattern *pattern.Regexp
	name    string // as the user wrote the expression
	rule    int
}

// NewIndex compiles set for matching. All keys start with prefix, for example "weir:". The rules can be in any order; an error names the
// invalid rule. A usual expression takes about a tenth of a millisecond to compile, see [WithExpressionsOf]. Equal expressions are compiled once.
func NewIndex(set rules.Set, revision, prefix string, options ...Option) (*Index, error) {
	x := &Index{revision: revision, rules: make([]Compiled, len(set.Rules)), domains: map[string]*hostIndex{}, clock: time.Now}
	x.kubernetes = newKubernetesIndex(set.Namespaces)
	compiler := compiler{prefix: prefix, expressions: map[expr.Key]*expr.Expression{}}
	for _, option := range options {
		option(&compiler)
	}
	if err := compiler.validateHashKey(set); err != nil {
		return nil, err
	}
	if byPolicy := func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) }; !slices.IsSortedFunc(set.Rules, byPolicy) {
		set.Rules = slices.SortedFunc(slices.Values(set.Rules), byPolicy)
	}
	for i, rule := range set.Rules {
		if i > 0 && set.Rules[i-1].Policy == rule.Policy {
			return nil, fmt.Errorf("rule %s: another rule has this name", rule.Policy)
		}
		c, err := compiler.compile(rule)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.Policy, err)
		}
		x.rules[i] = c
		if err := x.addAt(i, &c.Match); err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.Policy, err)
		}
	}
	x.setAges(set.ByAge)
	x.numberPolicies()
	x.boundTierSeries()
	x.expressions = compiler.expressions
	var err error
	if x.routes, err = route.Compile(set.RouteTable); err != nil {
		return nil, err
	}
	return x, nil
}

// numberPolicies sets the numbers of the policies. The order of rules is another one: "a:1d" is after "a-b".
func (x *Index) numberPolicies() {
	names := make([]string, len(x.rules))
	for i := range x.rules {
		names[i] = x.rules[i].PolicyName()
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i := range x.rules {
		number, _ := slices.BinarySearch(names, x.rules[i].PolicyName())
		x.rules[i].Number = number
	}
}

// Revision returns the revision of the Set.
func (x *Index) Revision() string { return x.revision }

// UseClock replaces time.Now, for requests of another time. Call it before the first Match.
func (x *Index) UseClock(clock func() time.Time) { x.clock = clock }

// Len returns the number of rules.
func (x *Index) Len() int { return len(x.rules) }

// Rules returns the rules, sorted by policy.
func (x *Index) Rules() iter.Seq[*Compiled] {
	return func(yield func(*Compiled) bool) {
		for i := range x.rules {
			if !yield(&x.rules[i]) {
				return
			}
		}
	}
}

// Counted yields what stores know about the rules, sorted by policy.
func (x *Index) Counted() iter.Seq[*limiter.CountedRule] {
	return func(yield func(*limiter.CountedRule) bool) {
		for i := range x.rules {
			if !yield(x.rules[i].Counted()) {
				return
			}
		}
	}
}

// Policies yields the names of the rules' policies, sorted.
func (x *Index) Policies() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range x.rules {
			if !yield(x.rules[i].Policy) {
				return
			}
		}
	}
}

// RuleOf returns the rule of a policy, if there is one.
func (x *Index) RuleOf(policy string) (*Compiled, bool) {
	i, found := slices.BinarySearchFunc(x.rules, policy, func(c Compiled, name string) int {
		return strings.Compare(c.Policy, name)
	})
	if !found {
		return nil, false
	}
	return &x.rules[i], true
}

// Inherit takes over what the previous index has of rules that are equal, or have the same counters. Stores then know which rules have not
// changed, and no rule counts other paths than before: after each change of a policy it could count another 1000. x can have been in use before:
// all of its rules that differ from those of the previous index have changed then. Rules are found by their counters: the name changes with rates.
func (x *Index) Inherit(previous *Index) {
	byCounters := make(map[string]*Compiled, len(previous.rules))
	for i := range previous.rules {
		byCounters[previous.rules[i].Keys.SharedKey("")] = &previous.rules[i]
	}
	for i := range x.rules {
		c := &x.rules[i]
		old, found := byCounters[c.Keys.SharedKey("")]
		if found && reflect.DeepEqual(old.Rule, c.Rule) {
			c.counted.Store(old.Counted())
		} else {
			c.counted.Store(c.newCounted())
		}
		if found && c.endpoints != nil && old.endpoints != nil && c.endpoints != old.endpoints {
			c.endpoints = old.endpoints
		}
	}
}

// addAt adds rule i where requests that meet match find it.
func (x *Index) addAt(i int, match *rules.Match) error {
	rule := &x.rules[i].Rule
	if rule.Match.Kubernetes != nil {
		x.kubernetes.add(i, rule)
		return nil
	}
	if match.Routes != nil {
		return x.addRoutes(i, match)
	}
	if rule.AllDomains {
		if x.everywhere == nil {
			x.everywhere = newHostIndex()
		}
		return x.everywhere.add(i, match)
	}
	if len(rule.Domains) == 0 {
		return x.hostsOf(rule.Domain).add(i, match)
	}
	for _, domain := range rule.Domains {
		if err := x.hostsOf(domain).add(i, match); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) hostsOf(name string) *hostIndex {
	if x.domains[name] == nil {
		x.domains[name] = newHostIndex()
	}
	return x.domains[name]
}

func newHostIndex() *hostIndex {
	return &hostIndex{exact: map[string]*pathIndex{}, wildcard: map[string]*pathIndex{}, any: newPathIndex(), descriptors: descriptorIndex{}}
}

func (h *hostIndex) add(i int, m *rules.Match) error {
	switch {
	case len(m.Hosts) > 0:
	case len(m.Paths) == 0 && len(m.Descriptors) > 0:
		h.descriptors.add(i, m.Descriptors)
	default:
		return h.any.add(i, m)
	}
	for _, host := range m.Hosts {
		if err := h.pathsOf(host).add(i, m); err != nil {
			return err
		}
	}
	return nil
}

func (h *hostIndex) pathsOf(host string) *pathIndex {
	table, key := h.exact, host
	if suffix, ok := strings.CutPrefix(host, "*"); ok {
		table, key = h.wildcard, suffix
		h.wildcards = h.wildcards.With(len(key))
	}
	if table[key] == nil {
		table[key] = newPathIndex()
	}
	return table[key]
}

func newPathIndex() *pathIndex { return &pathIndex{literalPaths: newLiteralPaths()} }

func newLiteralPaths() literalPaths {
	return literalPaths{exact: map[string][]int{}, prefix: map[string][]int{}}
}

func (p *pathIndex) add(i int, m *rules.Match) error {
	if len(m.Paths) == 0 {
		p.any = append(p.any, i)
		return nil
	}
	p.paths = append(p.paths, i)
	for _, path := range m.Paths {
		if err := p.addPath(i, path, m.IgnoreCase); err != nil {
			return err
		}
	}
	return nil
}

func (p *pathIndex) addPath(i int, m rules.PathMatch, ignoreCase bool) error {
	if m.Type == rules.PathRegex {
		compiled, err := pattern.Compile(m.Value, ignoreCase)
		if err != nil {
			return err
		}
		p.regex = append(p.regex, regexRule{compiled, m.Value, i})
		return nil
	}
	literal, value := &p.literalPaths, m.Value
	if ignoreCase {
		if p.folded == nil {
			p.folded = new(newLiteralPaths())
		}
		literal, value = p.folded, reading.FoldPath(value)
	}
	return literal.add(i, rules.PathMatch{Type: m.Type, Value: value})
}

func (p *literalPaths) add(i int, m rules.PathMatch) error {
	switch m.Type {
	case rules.PathExact:
		p.exact[m.Value] = append(p.exact[m.Value], i)
	case rules.PathPrefix:
		key := strings.TrimSuffix(m.Value, "/")
		p.prefix[key] = append(p.prefix[key], i)
		p.prefixes = p.prefixes.With(len(key))
	default:
		return fmt.Errorf("unknown path match type %q", m.Type)
	}
	return nil
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
