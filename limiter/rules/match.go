package rules

import (
	"slices"
	"strings"
)

// Matched is a rule that a request is charged to.
type Matched struct {
	Rule *Compiled
	// Endpoint is the path pattern that matched. Where the rule names none it is the request's path; of a rule that counts
	// endpoints only for the first 1000 paths, and [OtherEndpoints] for the others, as long as those are asked for.
	Endpoint   string
	order      int
	descriptor int         // of the request, that the rule matched; none
	on         *activation // what expressions have seen of the request; nil if none was met
}

// Match appends to dst the rules that r is charged to, in the order of their names. The only allocations are the growth
// of dst and those of expressions. A rule appears once, with the most specific of its path patterns that match: exact
// before prefix, the longer prefix before the shorter, before an expression.
func (x *Index) Match(dst []Matched, r *Request) []Matched {
	domain := x.domains[r.Domain]
	if domain == nil {
		return dst
	}
	from := len(dst)
	s := search{index: x, request: r, found: dst}
	if p := domain.exact[r.Host]; p != nil {
		s.paths(p)
	}
	if len(domain.wildcard) > 0 {
		for i := 1; i < len(r.Host); i++ { // "*." stands for at least one character
			if r.Host[i] != '.' {
				continue
			}
			if p := domain.wildcard[r.Host[i:]]; p != nil {
				s.paths(p)
			}
		}
	}
	s.paths(domain.any)
	s.descriptors(domain.descriptors)
	return sortUnique(s.found, from)
}

// search is one Match under way.
type search struct {
	index   *Index
	request *Request
	found   []Matched
	on      *activation // nil until an expression is met
}

func (s *search) paths(p *pathIndex) {
	path := s.request.Path
	for _, i := range p.exact[path] {
		s.rule(i, path)
	}
	if len(p.prefix) > 0 {
		for end := len(path); end >= 0; end = strings.LastIndexByte(path[:end], '/') {
			prefix := strings.TrimSuffix(path[:end], "/")
			for _, i := range p.prefix[prefix] {
				s.rule(i, prefixName(prefix))
			}
			if end == 0 || prefix == "" {
				break
			}
		}
	}
	for _, e := range p.regex {
		if e.expression.MatchString(path) {
			s.rule(e.rule, patternOf(e.expression))
		}
	}
	for _, i := range p.any {
		s.rule(i, path)
	}
}

func prefixName(prefix string) string {
	if prefix == "" {
		return "/"
	}
	return prefix
}

func (s *search) descriptors(index descriptorIndex) {
	if len(index) == 0 {
		return
	}
	for _, d := range s.request.Descriptors {
		if len(d) == 0 {
			continue
		}
		exactly := descriptorKey{len(d), DescriptorMatch(d[0])}
		whatever := descriptorKey{len(d), DescriptorMatch{Key: d[0].Key}}
		for _, i := range index[exactly] {
			s.rule(i, s.request.Path)
		}
		if exactly == whatever {
			continue
		}
		for _, i := range index[whatever] {
			s.rule(i, s.request.Path)
		}
	}
}

// rule appends rule i if the parts of its match that the index does not hold match too, the dearest asked last.
func (s *search) rule(i int, endpoint string) {
	c, r := &s.index.rules[i], s.request
	if len(c.Match.Methods) > 0 && !slices.Contains(c.Match.Methods, r.Method) {
		return
	}
	for j := range c.headers {
		if !c.headers[j].matches(r) {
			return
		}
	}
	if c.clients != nil && !within(c.clients, r.ClientIP) || c.exempt != nil && within(c.exempt, r.ClientIP) {
		return
	}
	descriptor := none
	if len(c.Match.Descriptors) > 0 {
		if descriptor = descriptorOf(r, c.Match.Descriptors); descriptor == none {
			return
		}
	}
	if c.condition != nil && !c.condition.selects(s.activation()) {
		return
	}
	if c.endpoints != nil && endpoint != "" {
		endpoint = c.endpoints.name(endpoint, s.index.clock)
	}
	s.found = append(s.found, Matched{Rule: c, Endpoint: endpoint, order: i, descriptor: descriptor, on: s.on})
}

func (s *search) activation() *activation {
	if s.on == nil {
		s.on = newActivation(s.request)
	}
	return s.on
}

// activation is what expressions see of r.
func (m Matched) activation(r *Request) *activation {
	if m.on != nil && m.on.request == r {
		return m.on
	}
	return newActivation(r)
}

// sortUnique sorts dst[from:] by rule and keeps the first of each.
func sortUnique(dst []Matched, from int) []Matched {
	found := dst[from:]
	slices.SortStableFunc(found, func(a, b Matched) int { return a.order - b.order })
	found = slices.CompactFunc(found, func(a, b Matched) bool { return a.order == b.order })
	return dst[:from+len(found)]
}
