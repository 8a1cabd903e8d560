package rules

import (
	"slices"
	"strings"
)

// RouteRequest is a request as a gateway compares it with its routes, which is without the normalization of [Request].
type RouteRequest struct {
	Method string
	// Host is that of [GatewayHost].
	Host string
	// Authority is the host as the client sent it.
	Authority string
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
	// minRouteSteps is how many steps must be left, of maxPatternSteps, for a comparison. Otherwise, its result is unknown. Without steps,
	// regular expressions may take minPatternSteps each: a tenant must not make those of others unknown by few of its own.
	minRouteSteps = -20_000
)

// RoutesOf returns the route that takes the request, from the table of routes. The result is empty without a table, or if no route takes it.
//
// Several routes mean that the request can belong to each of them, because of the port at which it arrived, or because a header or a regular
// expression could not be compared exactly. The caller must count it for all of them: otherwise, a client could choose the route that it counts for.
// The caller must reject requests of [TooManyRoutes].
func (x *Index) RoutesOf(r *RouteRequest) []Route {
	if x == nil || x.routes == nil {
		return nil
	}
	return x.routes.find(r)
}

// TooManyRoutes reports whether the routes are those of a request that can belong to more than [MaxRoutes] routes, or to very many rules of them.
func TooManyRoutes(routes []Route) bool {
	if len(routes) <= MaxRoutes {
		return false
	}
	distinct := 0
	for i, r := range routes {
		known := slices.ContainsFunc(routes[:i], func(o Route) bool { return o.Namespace == r.Namespace && routeOf(o.Target) == routeOf(r.Target) })
		if !known {
			distinct++
		}
	}
	return distinct > MaxRoutes || len(routes) > maxRouteRules
}

func (t *routeTable) find(r *RouteRequest) (routes []Route) {
	s, _ := t.searches.Get().(*routeSearch)
	if s == nil {
		s = &routeSearch{table: t, results: make([]routeResult, len(t.conditions)), headers: make([]routeHeader, len(t.names))}
	}
	s.begin(r)
	if groups, known := t.byPort[r.Port]; known {
		for _, i := range groups {
			routes = s.search(&t.groups[i], routes)
		}
	} else {
		for i := range t.groups {
			routes = s.search(&t.groups[i], routes)
		}
	}
	s.end()
	t.searches.Put(s)
	return routes
}

// routeSearch is the state of one call of RoutesOf. It is reused.
type routeSearch struct {
	table       *routeTable
	request     *RouteRequest
	path, query string
	parsed      bool // whether parameters has the query
	parameters  map[string]string
	unparsed    bool          // whether the query has more parameters than maxParts
	results     []routeResult // of routeTable.conditions
	headers     []routeHeader // of routeTable.names
	compared    []int         // indexes of results that are set
	looked      []int         // indexes of headers that are set
	searched    []*routePaths
	steps       int // that comparisons may still take; below 0 only few each

	paths     *routePaths
	best      int   // index of the first match that matches the request
	uncertain []int // indexes of matches that could not be compared
}

// routeResult is the result of a comparison.
type routeResult uint8

const (
	resultNone    routeResult = iota // not compared yet
	resultNo                         // does not match
	resultYes                        // matches
	resultUnknown                    // can match
)

func resultOf(is, known bool) routeResult {
	switch {
	case !known:
		return resultUnknown
	case is:
		return resultYes
	default:
		return resultNo
	}
}

func (s *routeSearch) begin(r *RouteRequest) {
	s.request, s.steps, s.searched, s.parsed = r, maxPatternSteps, s.searched[:0], false
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
		s.results[i] = resultNone
	}
	for _, i := range s.looked {
		s.headers[i] = routeHeader{}
	}
	s.compared, s.looked = s.compared[:0], s.looked[:0]
}

// search adds the routes of a group that can take the request.
func (s *routeSearch) search(hosts *routeHosts, routes []Route) []Route {
	listener, found := hosts.find(s.request.Host)
	if !found {
		return routes
	}
	paths, found := listener.find(s.request.Host)
	if !found || slices.Contains(s.searched, paths) { // groups share listeners
		return routes
	}
	s.searched = append(s.searched, paths)
	s.paths, s.best, s.uncertain = paths, len(paths.matches), s.uncertain[:0]
	s.findMatches()
	if s.best < len(paths.matches) {
		routes = s.addRoute(routes, s.best)
	}
	for _, i := range s.uncertain {
		if i < s.best {
			routes = s.addRoute(routes, i)
		}
	}
	return routes
}

func (s *routeSearch) addRoute(routes []Route, match int) []Route {
	route := s.table.routes[s.paths.matches[match].Route]
	if TooManyRoutes(routes) || slices.Contains(routes, route) {
		return routes
	}
	return append(routes, route)
}

func (s *routeSearch) findMatches() {
	p := s.paths
	path := s.path[:min(len(s.path), maxPath)]
	if len(p.exact) > 0 {
		s.compare(p.exact[path])
	}
	if len(p.prefix) > 0 && strings.HasPrefix(path, "/") {
		s.findByPrefix(path)
	}
	s.compare(p.regex)
}

// findByPrefix is search.findByPrefix for routes.
func (s *routeSearch) findByPrefix(path string) {
	end := len(path)
	if longest := s.paths.prefixes.longest(); end > longest {
		end = strings.LastIndexByte(path[:longest+1], '/')
	}
	for ; end >= 0; end = strings.LastIndexByte(path[:end], '/') {
		if s.paths.prefixes.has(end) {
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
	all := resultYes
	for _, i := range m.conditions {
		switch s.condition(i) {
		case resultNo:
			return resultNo
		case resultUnknown:
			all = resultUnknown
		}
	}
	if m.path != nil {
		switch s.pattern(m.path, s.path) {
		case resultNo:
			return resultNo
		case resultUnknown:
			all = resultUnknown
		}
	}
	return all
}

// condition compares a condition once for each request.
func (s *routeSearch) condition(i int) routeResult {
	if s.results[i] != resultNone {
		return s.results[i]
	}
	c := &s.table.conditions[i]
	s.results[i] = s.header(&c.header, s.headerOf(c.name))
	s.compared = append(s.compared, i)
	return s.results[i]
}

// value compares one value.
func (s *routeSearch) value(h *header, value string) routeResult {
	switch h.Type {
	case HeaderExact:
		return resultOf(value == h.Value, true)
	case HeaderRegex:
		return s.pattern(h.expression, value)
	default:
		return resultYes
	}
}

func (s *routeSearch) pattern(p *pattern, text string) routeResult {
	if s.spend(0) {
		return resultUnknown
	}
	return resultOf(p.matches(text, &s.steps))
}

// spend spends steps, and reports whether too many have been spent.
func (s *routeSearch) spend(steps int) bool {
	s.steps -= steps
	return s.steps < minRouteSteps
}
