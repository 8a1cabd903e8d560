// Package route finds the route of the Gateway API that a request belongs to, as a gateway does that does not name it.
package route

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/pattern"
)

// Request is a request as a gateway compares it with its routes, which is without the normalization of [rules.Request].
type Request struct {
	Method string
	// Host as the client sent it, with the port.
	Host string
	// Target is the path with the query.
	Target string
	// Port at which the request has arrived in the pod of the gateway, 0 if it is unknown.
	Port int32
	// Headers by names in lower case. The lines of a repeated header are joined.
	Headers map[string]string
	// Lines returns a new list with the lines of a header as the client sent them, by its name in lower case; nil if the gateway has joined them.
	Lines func(name string) []string
}

const (
	// MaxRoutes is the number of routes that a request can belong to. The caller must reject requests of more. The rules of one route count as
	// one: a policy of the route has one counter for all of them.
	MaxRoutes = 4
	// maxRouteRules is the number of rules of routes that a request can belong to: an HTTPRoute has at most 16.
	maxRouteRules = 16
)

// TooMany reports whether the routes are those of a request that can belong to more than [MaxRoutes] routes, or to very many rules of them.
func TooMany(routes []rules.Route) bool {
	if len(routes) <= MaxRoutes {
		return false
	}
	distinct := 0
	for i, r := range routes {
		repeated := slices.ContainsFunc(routes[:i], func(o rules.Route) bool {
			return o.Namespace == r.Namespace && rules.RouteOf(o.Target) == rules.RouteOf(r.Target)
		})
		if !repeated {
			distinct++
		}
	}
	return distinct > MaxRoutes || len(routes) > maxRouteRules
}

// Find returns the routes that can take the request, see matching.Index.RoutesOf. The list is empty if no route takes it.
func (t *Table) Find(r *Request) []rules.Route {
	s, _ := t.searches.Get().(*routeSearch)
	if s == nil {
		s = newRouteSearch(t)
	}
	routes := s.find(r)
	s.end()
	t.searches.Put(s)
	return routes
}

func (s *routeSearch) find(r *Request) (routes []rules.Route) {
	s.begin(r)
	host, other := routeHost(r.Host)
	s.addPaths(host)
	if other != "" {
		s.addPaths(other)
	}
	s.setSteps()
	for _, paths := range s.searched {
		routes = s.search(paths, routes)
	}
	return routes
}

// routeSearch is the state of one call of RoutesOf. It is reused.
type routeSearch struct {
	table            *Table
	request          *Request
	path, query      string
	parsed           bool // whether parameters has the query
	parameters       map[string]string
	unparsed         bool          // whether the query has more parameters than maxParts
	results          []routeResult // of Table.uses
	conditionResults []routeResult // of Table.conditions, yes or no
	headers          []routeHeader // of Table.names
	compared         []int         // indexes of results that are set
	looked           []int         // indexes of headers that are set
	searched         []*routePaths
	budgets          []routeBudget // by namespace
	begun            []int         // indexes of budgets that are set
	shared           int           // steps that are left for all namespaces
	reserve          int           // steps of each namespace that do not depend on the others

	paths     *routePaths
	namespace int   // of the match that is compared
	best      int   // index of the first match that matches the request
	uncertain []int // indexes of matches that could not be compared
}

func newRouteSearch(t *Table) *routeSearch {
	return &routeSearch{
		table: t, results: make([]routeResult, len(t.uses)), conditionResults: make([]routeResult, len(t.conditions)),
		headers: make([]routeHeader, len(t.names)), budgets: make([]routeBudget, len(t.namespaces)),
	}
}

// routeResult is the result of a comparison.
type routeResult uint8

const (
	resultNone    routeResult = iota // not compared yet
	resultNo                         // does not match
	resultYes                        // matches
	resultUnknown                    // can match
)

func resultOf(matches, certain bool) routeResult {
	switch {
	case !certain:
		return resultUnknown
	case matches:
		return resultYes
	default:
		return resultNo
	}
}

func (s *routeSearch) begin(r *Request) {
	s.request, s.searched, s.parsed = r, s.searched[:0], false
	s.path, s.query = r.Target, ""
	if i := strings.IndexAny(s.path, "?#"); i >= 0 {
		s.query, _, _ = strings.Cut(s.path[i:], "#")
		s.query = strings.TrimPrefix(s.query, "?")
		s.path = s.path[:i]
	}
}

// end releases the request. It clears only what the request has set: tenants can add many conditions to the table.
func (s *routeSearch) end() {
	s.request, s.path, s.query, s.paths = nil, "", "", nil
	for _, i := range s.compared {
		s.results[i], s.conditionResults[s.table.uses[i].condition] = resultNone, resultNone
	}
	for _, i := range s.looked {
		s.headers[i] = routeHeader{}
	}
	for _, i := range s.begun {
		s.budgets[i] = routeBudget{}
	}
	s.compared, s.looked, s.begun = s.compared[:0], s.looked[:0], s.begun[:0]
}

// addPaths adds the paths of the listeners that can take a request for the host.
func (s *routeSearch) addPaths(host string) {
	if groups, ok := s.table.byPort[s.request.Port]; ok {
		for _, group := range groups {
			s.addPathsOf(group, host)
		}
		return
	}
	for i := range s.table.groups {
		s.addPathsOf(portGroups{i}, host)
	}
}

// addPathsOf adds the paths of the listeners with the most specific host name of the groups.
func (s *routeSearch) addPathsOf(groups portGroups, host string) {
	most, start := 0, len(s.searched)
	for _, i := range groups {
		listener, specificity := s.table.groups[i].find(host)
		if specificity < most {
			continue
		}
		if specificity > most {
			most, s.searched = specificity, s.searched[:start]
		}
		if paths, found := listener.find(host); found >= 0 && !slices.Contains(s.searched, paths) { // groups share listeners
			s.searched = append(s.searched, paths)
		}
	}
}

// search adds the routes of paths that can take the request.
func (s *routeSearch) search(paths *routePaths, routes []rules.Route) []rules.Route {
	s.paths, s.best, s.uncertain = paths, len(paths.matches), s.uncertain[:0]
	s.findMatches()
	s.measure()
	s.uncertain = slices.DeleteFunc(s.uncertain, func(i int) bool { return i > s.best })
	if s.best < len(paths.matches) {
		routes = s.addRoute(routes, s.best)
	}
	others := slices.ContainsFunc(s.uncertain, func(i int) bool { return !s.overspent(i) })
	for _, i := range s.uncertain {
		// A namespace with too expensive expressions must not deny requests that a route of another namespace can take.
		if !s.overspent(i) || !others && !s.isOfAnother(i) {
			routes = s.addRoute(routes, i)
		}
	}
	return routes
}

// isOfAnother reports whether the best match is of another namespace than match i.
func (s *routeSearch) isOfAnother(i int) bool {
	return s.best < len(s.paths.matches) && s.paths.matches[s.best].namespace != s.paths.matches[i].namespace
}

func (s *routeSearch) addRoute(routes []rules.Route, match int) []rules.Route {
	route := s.table.routes[s.paths.matches[match].Route]
	if TooMany(routes) || slices.Contains(routes, route) {
		return routes
	}
	return append(routes, route)
}

func (s *routeSearch) findMatches() {
	p := s.paths
	path := s.path[:min(len(s.path), pattern.MaxPath)]
	if len(p.exact) > 0 {
		s.compare(p.exact[path])
	}
	if len(p.prefix) > 0 && strings.HasPrefix(path, "/") {
		s.findByPrefix(path)
	}
	s.compare(p.regex)
}

// findByPrefix finds the prefixes of a path, the longest first, as package matching does.
func (s *routeSearch) findByPrefix(path string) {
	end := len(path)
	if longest := s.paths.prefixes.Longest(); end > longest {
		end = strings.LastIndexByte(path[:longest+1], '/')
	}
	for ; end >= 0; end = strings.LastIndexByte(path[:end], '/') {
		if s.paths.prefixes.Has(end) {
			s.compare(s.paths.prefix[path[:end]])
		}
	}
}

// compare looks for a match that takes precedence over the best one. The indexes are sorted.
func (s *routeSearch) compare(indexes []int) {
	for _, i := range indexes {
		if i >= s.best {
			return
		}
		switch s.matches(&s.paths.matches[i]) {
		case resultUnknown:
			s.uncertain = append(s.uncertain, i)
		case resultYes:
			s.best = i
			return
		}
	}
}

// matches compares everything but an exact path or a prefix, by which m was found.
func (s *routeSearch) matches(m *routeMatch) routeResult {
	if m.Method != "" && m.Method != s.request.Method || !strings.HasSuffix(s.path, m.Suffix) {
		return resultNo
	}
	s.namespace = m.namespace
	result := resultYes
	for _, i := range m.uses {
		switch s.condition(i) {
		case resultNo:
			return resultNo
		case resultUnknown:
			result = resultUnknown
		}
	}
	if m.path != nil {
		switch s.pattern(m.path, s.path) {
		case resultNo:
			return resultNo
		case resultUnknown:
			result = resultUnknown
		}
	}
	return result
}

// condition compares a condition once for each request. If one namespace has too few steps for it, another one with the same condition can have enough.
func (s *routeSearch) condition(use int) routeResult {
	if s.results[use] != resultNone {
		return s.results[use]
	}
	i := s.table.uses[use].condition
	if s.conditionResults[i] == resultNone {
		c := &s.table.conditions[i]
		s.results[use] = s.header(&c.Header, s.headerOf(c.name))
		if s.results[use] != resultUnknown {
			s.conditionResults[i] = s.results[use]
		}
	} else {
		s.results[use] = s.conditionResults[i]
	}
	s.compared = append(s.compared, use)
	return s.results[use]
}

// value compares one value.
func (s *routeSearch) value(h *pattern.Header, value string) routeResult {
	switch h.Type {
	case rules.HeaderExact:
		return resultOf(value == h.Value, true)
	case rules.HeaderRegex:
		return s.pattern(h.Regexp, value)
	default:
		return resultYes
	}
}
