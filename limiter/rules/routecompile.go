package rules

import (
	"fmt"
	"strings"
	"sync"
)

// routeTable is a compiled RouteTable.
type routeTable struct {
	routes []Route
	groups []routeHosts
	// byPort has the groups to which a request can belong, by its port in the pod of the gateway. Requests of other ports can belong to all.
	byPort map[int32][]int
	// conditions on headers and parameters, each once however many matches have it, and the names of these headers and parameters.
	conditions []routeCompared
	names      []routeName
	searches   sync.Pool // of *routeSearch
}

// routeHosts are the hosts of one group: those of the routes, by those of the listeners.
type routeHosts = byHost[*byHost[*routePaths]]

// routePaths has the matches for a host in order of precedence, and their indexes by path.
type routePaths struct {
	matches  []routeMatch
	exact    map[string][]int
	prefix   map[string][]int // by the prefix without trailing slash
	prefixes lengths          // of the keys of prefix
	regex    []int
}

type routeMatch struct {
	RouteMatch

	path       *pattern // of the type RegularExpression
	conditions []int    // indexes of routeTable.conditions
}

// routeCondition is a condition on a header or on a parameter of the query.
type routeCondition struct {
	query bool
	HeaderMatch
}

type routeCompared struct {
	header

	name int // index of routeTable.names
}

// routeName is the name of a header or of a parameter of the query.
type routeName struct {
	query bool
	name  string
}

func compileRouteTable(t *RouteTable) (*routeTable, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // no table
	}
	table := &routeTable{routes: t.Routes, groups: make([]routeHosts, max(1, len(t.Groups))), byPort: byPort(t.Groups)}
	known, names := map[routeCondition]int{}, map[routeName]int{}
	matches := make([]routeMatch, len(t.Matches))
	for i := range t.Matches {
		m, err := table.compileMatch(t.Matches[i], len(t.Routes), known, names)
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

func (t *routeTable) addListener(l *RouteListener, matches []routeMatch) error {
	hosts := &byHost[*routePaths]{}
	for _, h := range l.Hosts {
		paths := &routePaths{exact: map[string][]int{}, prefix: map[string][]int{}}
		for _, i := range h.Matches {
			if i < 0 || i >= len(matches) {
				return fmt.Errorf("host %q has match %d of %d", h.Host, i, len(matches))
			}
			paths.add(matches[i])
		}
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

// compileMatch compiles a match and adds its conditions to the table. known and names have the indexes of those that the table has.
func (t *routeTable) compileMatch(match RouteMatch, routes int, known map[routeCondition]int, names map[routeName]int) (m routeMatch, err error) {
	m.RouteMatch = match
	if match.Route < 0 || match.Route >= routes {
		return m, fmt.Errorf("route %d of %d", match.Route, routes)
	}
	switch match.Path.Type {
	case PathExact, PathPrefix:
	case PathRegex:
		if m.path, err = compilePattern(match.Path.Value); err != nil {
			return m, err
		}
	default:
		return m, fmt.Errorf("unknown path match type %q", match.Path.Type)
	}
	for _, of := range []struct {
		query bool
		all   []HeaderMatch
	}{{false, match.Headers}, {true, match.Query}} {
		for _, h := range of.all {
			c := routeCondition{of.query, h}
			i, found := known[c]
			if !found {
				if i, err = t.addCondition(c, names); err != nil {
					return m, err
				}
				known[c] = i
			}
			m.conditions = append(m.conditions, i)
		}
	}
	return m, nil
}

func (t *routeTable) addCondition(c routeCondition, names map[routeName]int) (index int, err error) {
	var compared routeCompared
	match := c.HeaderMatch
	match.Value = bytewise(match.Value)
	if compared.header, err = compileHeader(match); err != nil {
		return 0, err
	}
	of := routeName{c.query, c.Name}
	name, found := names[of]
	if !found {
		name = len(t.names)
		names[of], t.names = name, append(t.names, of)
	}
	compared.name = name
	t.conditions = append(t.conditions, compared)
	return len(t.conditions) - 1, nil
}

func (p *routePaths) add(m routeMatch) {
	i := len(p.matches)
	p.matches = append(p.matches, m)
	switch m.Path.Type {
	case PathExact:
		p.exact[m.Path.Value] = append(p.exact[m.Path.Value], i)
	case PathPrefix:
		key := strings.TrimSuffix(m.Path.Value, "/")
		p.prefix[key] = append(p.prefix[key], i)
		p.prefixes = p.prefixes.with(len(key))
	default:
		p.regex = append(p.regex, i)
	}
}
