package rules

import (
	"slices"
	"strings"
)

// RoutesOf returns the route that takes the request, from the table of routes. The result is empty without a table, or if no route takes it. target
// is the path and the query of the request as the gateway has sent them: a gateway compares paths without the normalization of Request.Path, so
// that another spelling of a path can belong to another route. Two routes mean that the request is ambiguous: a regular expression took too many
// steps, or a header can have several lines, because of what the client sent. The caller must reject such a request. To count it for one of the routes
// lets a client avoid the limits of the other one.
func (x *Index) RoutesOf(r *Request, target string) []Route {
	if x == nil || x.routes == nil {
		return nil
	}
	hosts, found := x.routes.listeners.find(r.Host)
	if !found {
		return nil
	}
	paths, found := hosts.find(r.Host)
	if !found {
		return nil
	}
	path, query := target, ""
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path, query = target[:i], target[i:]
		query, _, _ = strings.Cut(query, "#")
		query = strings.TrimPrefix(query, "?")
	}
	f := routeSearch{paths: paths, request: r, path: path, query: query, best: len(paths.matches), steps: maxPatternSteps}
	f.find()
	return f.routes(x.routes.routes)
}

// routes returns the route of the best match, and another one if an uncertain match takes precedence.
func (f *routeSearch) routes(all []Route) (routes []Route) {
	add := func(i int) {
		route := all[f.paths.matches[i].Route]
		if !slices.Contains(routes, route) {
			routes = append(routes, route)
		}
	}
	if f.best < len(f.paths.matches) {
		add(f.best)
	}
	for _, i := range f.uncertain {
		if i < f.best && len(routes) < 2 {
			add(i)
		}
	}
	return routes
}

// routeSearch is the state of one call of RoutesOf.
type routeSearch struct {
	paths       *routePaths
	request     *Request
	path, query string
	best        int   // index of the first match that matches the request
	uncertain   []int // indexes of matches that could not be compared
	steps       int   // that regular expressions may still take
	compared    int   // matches, for tests
}

func (f *routeSearch) find() {
	p := f.paths
	path := f.path[:min(len(f.path), maxPath)]
	if len(p.exact) > 0 {
		f.compare(p.exact[path])
	}
	if len(p.prefix) > 0 && strings.HasPrefix(path, "/") {
		f.findByPrefix(path)
	}
	f.compare(p.regex)
}

// findByPrefix is search.findByPrefix for routes.
func (f *routeSearch) findByPrefix(path string) {
	end := len(path)
	if longest := f.paths.prefixes.longest(); end > longest {
		end = strings.LastIndexByte(path[:longest+1], '/')
	}
	for ; end >= 0; end = strings.LastIndexByte(path[:end], '/') {
		if f.paths.prefixes.has(end) {
			f.compare(f.paths.prefix[path[:end]])
		}
	}
}

// compare looks for a match that takes precedence over the best one. The indexes are sorted.
func (f *routeSearch) compare(indexes []int) {
	for _, i := range indexes {
		if i >= f.best {
			return
		}
		f.compared++
		is, known := f.matches(&f.paths.matches[i])
		if !known {
			f.uncertain = append(f.uncertain, i)
		}
		if is && known {
			f.best = i
			return
		}
	}
}

// matches compares everything but an exact path or a prefix, by which m was found.
func (f *routeSearch) matches(m *routeMatch) (is, known bool) {
	if m.Method != "" && m.Method != f.request.Method || !strings.HasSuffix(f.path, m.Suffix) {
		return false, true
	}
	known = true
	for i := range m.headers {
		is, certain := f.matchesHeader(&m.headers[i])
		if certain && !is {
			return false, true
		}
		known = known && certain
	}
	for i := range m.query {
		is, certain := f.matchesParameter(&m.query[i])
		if certain && !is {
			return false, true
		}
		known = known && certain
	}
	if m.path != nil {
		is, certain := m.path.matches(f.path, &f.steps)
		if certain && !is {
			return false, true
		}
		known = known && certain
	}
	return true, known
}

// maxLines bounds the lines of a header that are compared one by one: a client chooses their number.
const maxLines = 16

// matchesHeader compares the lines of a header, which ext_authz has joined with commas. Envoy also matches one line of several, and a comma can be
// part of a line. If this makes a difference, the result is unknown.
func (f *routeSearch) matchesHeader(h *header) (is, known bool) {
	value, found := f.request.Headers[h.Name]
	if !found {
		return false, true
	}
	if strings.Count(value, ",") >= maxLines {
		return false, false
	}
	is, known = h.matchesValue(value, &f.steps)
	for rest, more := value, strings.Contains(value, ","); more && known; {
		var line string
		line, rest, more = strings.Cut(rest, ",")
		matches, certain := h.matchesValue(strings.TrimSpace(line), &f.steps)
		known = certain && (is || !matches) && (!is || matches || more)
		if is && matches {
			break
		}
	}
	return is, known
}

func (f *routeSearch) matchesParameter(h *header) (is, known bool) {
	value, found := parameter(f.query, h.Name)
	if !found {
		return false, true
	}
	return h.matchesValue(value, &f.steps)
}

// parameter returns the first value of a parameter in a query, without decoding.
func parameter(query, name string) (value string, found bool) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if key, value, _ := strings.Cut(pair, "="); key == name {
			return value, true
		}
	}
	return "", false
}
