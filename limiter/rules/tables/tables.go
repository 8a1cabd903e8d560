// Package tables maps requests to the rules that they are compared with: by domain, host and path, by descriptors, by routes, and writes to the
// Kubernetes API by namespace, resource and operation. A change of a rule copies the tables that lead to it, and shares all others.
package tables

import (
	"iter"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/persistent"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/pattern"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// Rule is what the tables contain.
type Rule interface {
	comparable

	// Declaration is the rule that was compiled.
	Declaration() *rules.Rule
}

// Tables are the tables of all rules. A copy is a version of them, see [persistent.Version]. The tables depend on the rules alone, and not on the order in
// which these were added.
type Tables[R Rule] struct {
	Domains persistent.Map[string, *Hosts[R]]
	// Everywhere has the rules for all domains. It is nil if there are no such rules.
	Everywhere *Hosts[R]
	// Namespaces has the rules for writes to the Kubernetes API.
	Namespaces persistent.Map[string, *Resources[R]]
	// AllNamespaces has the rules for writes to all namespaces and cluster-scoped objects. It is nil if there are no such rules.
	AllNamespaces *Resources[R]
}

// Hosts are the tables of a domain.
type Hosts[R Rule] struct {
	version persistent.Version

	Exact    persistent.Map[string, *Paths[R]]
	Wildcard persistent.Map[string, *Paths[R]] // by ".shop.example" for "*.shop.example"
	// WildcardLengths are those of the keys of Wildcard.
	WildcardLengths pattern.Lengths
	// Any has the rules without hosts. It is nil if there are no such rules.
	Any *Paths[R]
	// Descriptors has the rules that match a descriptor and have no hosts and paths, by the number of its entries.
	Descriptors persistent.Map[int, *Entries[R]]
	Routes      persistent.Map[string, *Paths[R]] // by target
}

// Paths are the tables of a host or of a route.
type Paths[R Rule] struct {
	version persistent.Version

	Literals[R]

	Folded *Literals[R] // of the rules that ignore case, see reading.FoldPath; nil without
	// Regexps has the rules with regular expressions.
	Regexps List[R]
	// Some has the rules with paths, and Any those without.
	Some persistent.Sorted[R]
	Any  List[R]
}

// Literals are the tables of paths that are compared as texts.
type Literals[R Rule] struct {
	Exact  persistent.Map[string, List[R]]
	Prefix persistent.Map[string, List[R]] // by the prefix without trailing slash; "" for "/"
	// PrefixLengths are those of the keys of Prefix.
	PrefixLengths pattern.Lengths
}

// List is a list of rules, sorted by policy.
type List[R Rule] struct {
	Rules []R

	version persistent.Version
}

// Edit adds a rule to tables, where requests that meet Match find it, or removes it there.
type Edit[R Rule] struct {
	Version persistent.Version // of the tables
	Rule    R
	Match   *rules.Match
	Removes bool
}

// Compare compares rules in the order of a List.
func Compare[R Rule](a, b R) int {
	return strings.Compare(a.Declaration().Policy, b.Declaration().Policy)
}

// Apply applies the edit.
func (e *Edit[R]) Apply(t *Tables[R]) {
	r := e.Rule.Declaration()
	switch {
	case r.Match.Kubernetes != nil:
		e.inNamespaces(t)
	case e.Match.Routes != nil:
		for _, route := range e.Match.Routes {
			editIn(e, &t.Domains, route.Namespace, func(h *Hosts[R]) *Hosts[R] { return e.inTarget(h, route.Target) })
		}
	case r.AllDomains:
		t.Everywhere = e.inHosts(t.Everywhere)
	case len(r.Domains) == 0:
		editIn(e, &t.Domains, r.Domain, e.inHosts)
	default:
		for _, domain := range r.Domains {
			editIn(e, &t.Domains, domain, e.inHosts)
		}
	}
}

// editIn replaces a table in m by the result of an edit of it. Tables that do not exist, or become empty, are nil.
func editIn[K comparable, R Rule, T any](e *Edit[R], m *persistent.Map[K, *T], key K, apply func(*T) *T) {
	before := m.Get(key)
	switch after := apply(before); {
	case after == nil:
		m.Delete(e.Version, key)
	case after != before:
		m.Set(e.Version, key, after)
	}
}

// inList edits the list of a key.
func inList[K comparable, R Rule](e *Edit[R], m *persistent.Map[K, List[R]], key K) {
	l := m.Get(key)
	e.list(&l)
	if len(l.Rules) == 0 {
		m.Delete(e.Version, key)
	} else {
		m.Set(e.Version, key, l)
	}
}

// list edits a list. A rule is listed once, even if two of its conditions lead to the list.
func (e *Edit[R]) list(l *List[R]) {
	at, found := slices.BinarySearchFunc(l.Rules, e.Rule, Compare[R])
	if found != e.Removes {
		return
	}
	if l.version != e.Version {
		l.Rules, l.version = slices.Clone(l.Rules), e.Version
	}
	if e.Removes {
		l.Rules = slices.Delete(l.Rules, at, at+1)
	} else {
		l.Rules = slices.Insert(l.Rules, at, e.Rule)
	}
}

// lengths edits the lengths of keys after the keys were edited.
func (e *Edit[R]) lengths(l *pattern.Lengths, n int, keys iter.Seq[string]) {
	if e.Removes {
		*l = l.Without(n, keys)
	} else {
		*l = l.With(n)
	}
}

// editable returns a table that an edit can change: the table itself, if it is of this version, or a copy.
func (h *Hosts[R]) editable(version persistent.Version) *Hosts[R] {
	switch {
	case h == nil:
		return &Hosts[R]{version: version}
	case h.version == version:
		return h
	}
	h = new(*h)
	h.version = version
	return h
}

// unlessEmpty returns nil for an empty table.
func (h *Hosts[R]) unlessEmpty() *Hosts[R] {
	if h.Exact.Len() == 0 && h.Wildcard.Len() == 0 && h.Any == nil && h.Descriptors.Len() == 0 && h.Routes.Len() == 0 {
		return nil
	}
	return h
}

func (e *Edit[R]) inHosts(h *Hosts[R]) *Hosts[R] {
	h = h.editable(e.Version)
	switch m := e.Match; {
	case len(m.Hosts) > 0:
		for _, host := range m.Hosts {
			if suffix, isWildcard := strings.CutPrefix(host, "*"); isWildcard {
				editIn(e, &h.Wildcard, suffix, e.inPaths)
				e.lengths(&h.WildcardLengths, len(suffix), h.Wildcard.Keys())
			} else {
				editIn(e, &h.Exact, host, e.inPaths)
			}
		}
	case len(m.Paths) == 0 && len(m.Descriptors) > 0:
		editIn(e, &h.Descriptors, len(m.Descriptors), e.inEntries)
	default:
		h.Any = e.inPaths(h.Any)
	}
	return h.unlessEmpty()
}

// inTarget edits the table of a route.
func (e *Edit[R]) inTarget(h *Hosts[R], target string) *Hosts[R] {
	h = h.editable(e.Version)
	editIn(e, &h.Routes, target, e.inPaths)
	return h.unlessEmpty()
}

// editable is that of Hosts.
func (p *Paths[R]) editable(version persistent.Version) *Paths[R] {
	switch {
	case p == nil:
		return &Paths[R]{version: version}
	case p.version == version:
		return p
	}
	p = new(*p)
	p.version = version
	if p.Folded != nil {
		p.Folded = new(*p.Folded)
	}
	return p
}

func (e *Edit[R]) inPaths(p *Paths[R]) *Paths[R] {
	p = p.editable(e.Version)
	if len(e.Match.Paths) == 0 {
		e.list(&p.Any)
	} else if sought := func(other R) int { return Compare(other, e.Rule) }; e.Removes {
		p.Some.Delete(e.Version, sought)
	} else {
		p.Some.Insert(e.Version, e.Rule, sought)
	}
	for _, path := range e.Match.Paths {
		switch {
		case path.Type == rules.PathRegex:
			e.list(&p.Regexps)
		case e.Match.IgnoreCase:
			if p.Folded == nil {
				p.Folded = new(Literals[R])
			}
			e.inLiterals(p.Folded, path.Type, reading.FoldPath(path.Value))
		default:
			e.inLiterals(&p.Literals, path.Type, path.Value)
		}
	}
	if p.Folded != nil && p.Folded.Exact.Len() == 0 && p.Folded.Prefix.Len() == 0 {
		p.Folded = nil
	}
	if p.Some.Len() == 0 && len(p.Any.Rules) == 0 {
		return nil
	}
	return p
}

func (e *Edit[R]) inLiterals(p *Literals[R], kind rules.PathMatchType, path string) {
	if kind == rules.PathExact {
		inList(e, &p.Exact, path)
		return
	}
	path = strings.TrimSuffix(path, "/")
	inList(e, &p.Prefix, path)
	e.lengths(&p.PrefixLengths, len(path), p.Prefix.Keys())
}
