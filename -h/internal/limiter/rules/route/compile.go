package route

import (
	"fmt"
	"strings"
	"sync"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/pattern"
)

// Table is a compiled rules.RouteTable.
type Table struct {
	routes []rules.Route
	groups []routeHosts
	// byPort has the groups to which a request can belong, by its port in the pod of the gateway. Requests of other ports can belong to all.
	byPort map[int32][]portGroups
	// conditions on headers and parameters, each once however many matches have it, and the names of these headers and parameters.
	conditions []routeCompared
	names      []routeName
	uses       []routeUse // of conditions, each once for a namespace
	namespaces [][]int    // of the routes, with indexes of the names in their conditions
	searches   sync.Pool  // of *routeSearch
}

// routeHosts are the hosts of one group: those of the routes, by those of the listeners.
type routeHosts = byHost[*byHost[*routePaths]]

// routePaths has the matches for a host in order of precedence, and their indexes by path.
type routePaths struct {
	matches  []routeMatch
	exact    map[string][]int
	prefix   map[string][]int // by the prefix without trailing slash
	prefixes pattern.Lengths  // of the keys of prefix
	regex    []int
	spenders int // number of namespaces with matches whose comparison can take steps
}

type routeMatch struct {
	rules.RouteMatch

	namespace int
	path      *pattern.Regexp // of the type RegularExpression
	uses      []int           // indexes of Table.uses
}

// routeCondition is a condition on a header or on a parameter of the query.
type routeCondition struct {
	query bool
	rules.HeaderMatch
}

type routeCompared struct {
	pattern.Header

	name int // index of Table.names
}

// routeUse is a condition of a namespace, which pays for the comparison.
type routeUse struct {
	namespace, condition int
}

// routeName is the name of a header or of a parameter of the query.
type routeName struct {
	query bool
	name  string
}

// Compile compiles the table of a Set. It returns nil for nil. The error names the invalid match, host or listener.
func Compile(t *rules.RouteTable) (*Table, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // no table
	}
	c := newRouteCompiler(t.Routes)
	table := c.Table
	table.groups, table.byPort = make([]routeHosts, max(1, len(t.Groups))), byPort(t.Groups)
	matches := make([]routeMatch, len(t.Matches))
	for i := range t.Matches {
		m, err := c.compileMatch(t.Matches[i])
		if err != nil {
			return nil, fmt.Errorf("match %d of the routes: %w", i, err)
		}
		matches[i] = m
	}
	for i := range t.Listeners {
		if err := table.addListener(&t.Listeners[i], matches); err != nil {
			return nil, err
		}
	}
	return table, nil
}

func (t *Table) addListener(l *rules.RouteListener, matches []routeMatch) error {
	hosts := &byHost[*routePaths]{}
	for _, h := range l.Hosts {
		paths := &routePaths{exact: map[string][]int{}, prefix: map[string][]int{}}
		for _, i := range h.Matches {
			if i < 0 || i >= len(matches) {
				return fmt.Errorf("host %q has match %d of %d", h.Host, i, len(matches))
			}
			paths.add(matches[i])
		}
		paths.spenders = spendersOf(paths.matches)
		if err := hosts.add(h.Host, paths); err != nil {
			return err
		}
	}
	if len(l.Groups) == 0 {
		for i := range t.groups {
			if err := t.groups[i].add(l.Host, hosts); err != nil {
				return err
			}
		}
	}
	for _, i := range l.Groups {
		if i < 0 || i >= len(t.groups) {
			return fmt.Errorf("listener %q has group %d of %d", l.Host, i, len(t.groups))
		}
		if err := t.groups[i].add(l.Host, hosts); err != nil {
			return err
		}
	}
	return nil
}

// routeCompiler compiles the matches of a table.
type routeCompiler struct {
	*Table

	namespaceOf []int // of each route
	// conditionIndexes, named and used have the indexes of what the table has.
	conditionIndexes map[routeCondition]int
	named            map[routeName]int
	used             map[routeUse]int
	namesOf          map[[2]int]bool // namespaces and names
}

func newRouteCompiler(routes []rules.Route) *routeCompiler {
	namespaces := map[string]int{}
	c := &routeCompiler{
		Table: &Table{routes: routes}, conditionIndexes: map[routeCondition]int{}, named: map[routeName]int{}, used: map[routeUse]int{},
		namesOf: map[[2]int]bool{},
	}
	for _, r := range routes {
		namespace, found := namespaces[r.Namespace]
		if !found {
			namespace = len(namespaces)
			namespaces[r.Namespace] = namespace
		}
		c.namespaceOf = append(c.namespaceOf, namespace)
	}
	c.namespaces = make([][]int, len(namespaces))
	return c
}

// compileMatch compiles a match and adds its conditions to the table.
func (c *routeCompiler) compileMatch(match rules.RouteMatch) (m routeMatch, err error) {
	m.RouteMatch = match
	if match.Route < 0 || match.Route >= len(c.routes) {
		return m, fmt.Errorf("route %d of %d", match.Route, len(c.routes))
	}
	m.namespace = c.namespaceOf[match.Route]
	switch match.Path.Type {
	case rules.PathExact, rules.PathPrefix:
	case rules.PathRegex:
		if m.path, err = pattern.Compile(match.Path.Value, false); err != nil {
			return m, err
		}
	default:
		return m, fmt.Errorf("unknown path match type %q", match.Path.Type)
	}
	for _, part := range []struct {
		query   bool
		matches []rules.HeaderMatch
	}{{false, match.Headers}, {true, match.Query}} {
		for _, h := range part.matches {
			condition, err := c.addCondition(routeCondition{part.query, h})
			if err != nil {
				return m, err
			}
			m.uses = append(m.uses, c.addUse(routeUse{m.namespace, condition}))
		}
	}
	return m, nil
}

func (c *routeCompiler) addUse(use routeUse) (index int) {
	index, found := c.used[use]
	if !found {
		index = len(c.uses)
		c.used[use], c.uses = index, append(c.uses, use)
		c.addName(use.namespace, c.conditions[use.condition].name)
	}
	return index
}

func (c *routeCompiler) addName(namespace, name int) {
	pair := [2]int{namespace, name}
	if !c.namesOf[pair] {
		c.namesOf[pair] = true
		c.namespaces[namespace] = append(c.namespaces[namespace], name)
	}
}

func (c *routeCompiler) addCondition(condition routeCondition) (index int, err error) {
	index, found := c.conditionIndexes[condition]
	if found {
		return index, nil
	}
	var compared routeCompared
	match := condition.HeaderMatch
	match.Value = bytewise(match.Value)
	if compared.Header, err = pattern.CompileHeader(match); err != nil {
		return 0, err
	}
	field := routeName{condition.query, condition.Name}
	name, found := c.named[field]
	if !found {
		name = len(c.names)
		c.named[field], c.names = name, append(c.names, field)
	}
	compared.name = name
	index = len(c.conditions)
	c.conditionIndexes[condition], c.conditions = index, append(c.conditions, compared)
	return index, nil
}

func (p *routePaths) add(m routeMatch) {
	i := len(p.matches)
	p.matches = append(p.matches, m)
	switch m.Path.Type {
	case rules.PathExact:
		p.exact[m.Path.Value] = append(p.exact[m.Path.Value], i)
	case rules.PathPrefix:
		key := strings.TrimSuffix(m.Path.Value, "/")
		p.prefix[key] = append(p.prefix[key], i)
		p.prefixes = p.prefixes.With(len(key))
	default:
		p.regex = append(p.regex, i)
	}
}

// ValidateMatch returns an error if a limiter cannot compare requests with the match.
func ValidateMatch(m rules.RouteMatch) error {
	m.Route = 0
	_, err := newRouteCompiler([]rules.Route{{}}).compileMatch(m)
	return err
}
