package rules

import (
	"fmt"
	"strings"
)

// RouteTable has the routes of gateways that do not name the route of a request. With it, a limiter finds the route as these gateways do.
type RouteTable struct {
	// Routes are the routes, or the rules of routes, of the matches.
	Routes []Route `json:"routes"`
	// Matches of the routes.
	Matches []RouteMatch `json:"matches"`
	// Listeners have different hosts. A request belongs to the listener with the most specific one, as the Gateway API requires.
	Listeners []RouteListener `json:"listeners"`
}

// RouteListener has what the listeners with one host name accept.
type RouteListener struct {
	Host  string      `json:"host,omitempty"` // as in Match.Hosts; empty for every host
	Hosts []RouteHost `json:"hosts"`
}

// RouteHost has the matches for a host of a listener. A request belongs to the most specific one.
type RouteHost struct {
	Host string `json:"host,omitempty"` // as in Match.Hosts; empty for every host
	// Matches are indexes of RouteTable.Matches. The first one that matches a request takes it.
	Matches []int `json:"matches"`
}

// RouteMatch selects requests of a route. A request must match every field that is set.
type RouteMatch struct {
	// Route is an index of RouteTable.Routes.
	Route int `json:"route"`
	// Path is compared with the path as the gateway has sent it, without the query.
	Path PathMatch `json:"path"`
	// Suffix of the path, such as "/Get" for a method of any gRPC service.
	Suffix  string        `json:"suffix,omitempty"`
	Method  string        `json:"method,omitempty"`
	Headers []HeaderMatch `json:"headers,omitempty"`
	// Query has parameters, with names and values as in the request: they are not decoded. The first value of a parameter counts.
	Query []HeaderMatch `json:"query,omitempty"`
}

// routeTable is a compiled RouteTable.
type routeTable struct {
	routes    []Route
	listeners byHost[byHost[*routePaths]]
}

// byHost finds values by host names.
type byHost[T any] struct {
	exact     map[string]T
	wildcard  map[string]T // by ".shop.example" for "*.shop.example"
	wildcards lengths      // of the keys of wildcard
	any       *T
}

func (h *byHost[T]) add(host string, value T) error {
	suffix, isWildcard := strings.CutPrefix(host, "*")
	switch {
	case host == "":
		h.any = &value
		return nil
	case len(suffix) > maxHost:
		return fmt.Errorf("host %q is longer than %d bytes", truncate(host), maxHost)
	case isWildcard:
		if h.wildcard == nil {
			h.wildcard = map[string]T{}
		}
		h.wildcard[suffix], h.wildcards = value, h.wildcards.with(len(suffix))
	default:
		if h.exact == nil {
			h.exact = map[string]T{}
		}
		h.exact[host] = value
	}
	return nil
}

// find returns the value for the most specific name. A client can send a host that is longer than every name, and a wildcard matches it.
func (h *byHost[T]) find(host string) (value T, found bool) {
	if len(host) <= maxHost {
		if value, found = h.exact[host]; found {
			return value, true
		}
	}
	for i := max(1, len(host)-h.wildcards.longest()); len(h.wildcard) > 0 && i < len(host); i++ { // "*" matches at least one character
		if host[i] != '.' || !h.wildcards.has(len(host)-i) {
			continue
		}
		if value, found = h.wildcard[host[i:]]; found {
			return value, true
		}
	}
	if h.any == nil {
		return value, false
	}
	return *h.any, true
}

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

	path           *pattern // of the type RegularExpression
	headers, query []header
}

func compileRouteTable(t *RouteTable) (*routeTable, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // no table
	}
	matches := make([]routeMatch, len(t.Matches))
	for i := range t.Matches {
		m, err := compileRouteMatch(t.Matches[i], len(t.Routes))
		if err != nil {
			return nil, fmt.Errorf("match %d of the routes: %w", i, err)
		}
		matches[i] = m
	}
	table := &routeTable{routes: t.Routes}
	for _, l := range t.Listeners {
		var hosts byHost[*routePaths]
		for _, h := range l.Hosts {
			paths := &routePaths{exact: map[string][]int{}, prefix: map[string][]int{}}
			for _, i := range h.Matches {
				if i < 0 || i >= len(matches) {
					return nil, fmt.Errorf("host %q has match %d of %d", h.Host, i, len(matches))
				}
				paths.add(matches[i])
			}
			if err := hosts.add(h.Host, paths); err != nil {
				return nil, err
			}
		}
		if err := table.listeners.add(l.Host, hosts); err != nil {
			return nil, err
		}
	}
	return table, nil
}

func compileRouteMatch(match RouteMatch, routes int) (m routeMatch, err error) {
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
	if m.headers, err = compileHeaders(match.Headers); err != nil {
		return m, err
	}
	m.query, err = compileHeaders(match.Query)
	return m, err
}

// Validate returns an error if a limiter cannot compare requests with the match.
func (m RouteMatch) Validate() error {
	_, err := compileRouteMatch(m, m.Route+1)
	return err
}

func compileHeaders(matches []HeaderMatch) (all []header, err error) {
	for _, match := range matches {
		h, err := compileHeader(match)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
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
