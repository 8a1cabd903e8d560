package rules

import (
	"cmp"
	"slices"
	"strings"
)

// Matched is a rule that a request is charged to.
type Matched struct {
	Rule *Compiled
	// Endpoint is the path pattern that matched. Where the rule names none it is the request's path; of a rule that counts
	// endpoints only for the first 1000 paths, and [OtherEndpoints] for the others, as long as those are asked for.
	Endpoint   string
	order      int32       // narrow, with descriptor: 8 bytes more in a Matched make matching half as slow again
	descriptor int32       // of the request, that the rule matched; none
	namespace  *Namespace  // of a write to the Kubernetes API; nil for one that is not known, and for none
	on         *activation // what expressions have seen of the request; nil if none was met
}

// Match appends to dst the rules that r is charged to, in the order of their names. The only allocations are the growth
// of dst and those of expressions. A rule appears once, with the most specific of its path patterns that match: exact
// before prefix, the longer prefix before the shorter, before an expression.
func (x *Index) Match(dst []Matched, r *Request) []Matched {
	from := len(dst)
	s := search{index: x, request: r, found: dst}
	if r.Kubernetes != nil {
		s.findKubernetes(&x.kubernetes)
	} else {
		s.findHTTP()
	}
	matched := sortUnique(s.found, from)
	if s.defaults {
		matched = dropReplacedDefaults(matched, from)
	}
	if s.ownPaths {
		x.nameEndpoints(matched[from:])
	}
	return matched
}

// dropReplacedDefaults drops from dst[from:] the defaults in whose place another rule stands.
func dropReplacedDefaults(dst []Matched, from int) []Matched {
	found := dst[from:]
	kept := dst[:from]
	for i := range found {
		if !isReplaced(found[i].Rule, found) {
			kept = append(kept, found[i]) // in place: a default replaces nothing, so what it overwrites is asked no more
		}
	}
	return kept
}

// isReplaced asks only for rules that are no defaults, which dropReplacedDefaults never drops.
func isReplaced(c *Compiled, found []Matched) bool {
	if !c.Default {
		return false
	}
	for i := range found {
		if found[i].Rule.Replaces(&c.Rule) {
			return true
		}
	}
	return false
}

// Replaces says whether a request that r matches is not charged to other, a default that matches it too.
func (r *Rule) Replaces(other *Rule) bool {
	return other.Default && r.Domain != "" && !r.Shadow && r.Axis == other.Axis
}

// nameEndpoints gives the requests' own paths the names that they are counted by.
func (x *Index) nameEndpoints(matched []Matched) {
	for i := range matched {
		if m := &matched[i]; m.Rule.endpoints != nil && m.Endpoint != "" {
			m.Endpoint = m.Rule.endpoints.name(m.Endpoint, x.clock)
		}
	}
}

// search is one Match under pattern.
type search struct {
	index   *Index
	request *Request
	found   []Matched
	on      *activation // nil until an expression is met
	// namespace of a write to the Kubernetes API; nil for one that is not known, and for none.
	namespace *Namespace
	// defaults and ownPaths: some rule that was found may give pattern, counts requests' own paths.
	defaults, ownPaths bool
}

// http finds the rules for a request that is no write to the Kubernetes API.
func (s *search) findHTTP() {
	if domain := s.index.domains[s.request.Domain]; domain != nil {
		s.findByHost(domain)
	}
	if everywhere := s.index.everywhere; everywhere != nil {
		s.findByHost(everywhere)
	}
}

func (s *search) findByHost(h *hostIndex) {
	host := s.request.Host
	if p := h.exact[host]; p != nil {
		s.findByPath(p)
	}
	if len(h.wildcard) > 0 {
		for i := 1; i < len(host); i++ { // "*." stands for at least one character
			if host[i] != '.' {
				continue
			}
			if p := h.wildcard[host[i:]]; p != nil {
				s.findByPath(p)
			}
		}
	}
	s.findByPath(h.any)
	s.findByDescriptor(h.descriptors)
}

func (s *search) findByPath(p *pathIndex) {
	path := s.request.Path
	for _, i := range p.exact[path] {
		s.appendIfMatched(i, path)
	}
	if len(p.prefix) > 0 {
		for end := len(path); end >= 0; end = strings.LastIndexByte(path[:end], '/') {
			prefix := strings.TrimSuffix(path[:end], "/")
			for _, i := range p.prefix[prefix] {
				s.appendIfMatched(i, prefixName(prefix))
			}
			if end == 0 || prefix == "" {
				break
			}
		}
	}
	for _, e := range p.regex {
		if e.expression.MatchString(path) {
			s.appendIfMatched(e.rule, patternOf(e.expression))
		}
	}
	for _, i := range p.any {
		s.appendIfMatched(i, path)
	}
}

func prefixName(prefix string) string {
	if prefix == "" {
		return "/"
	}
	return prefix
}

func (s *search) findByDescriptor(index descriptorIndex) {
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
			s.appendIfMatched(i, s.request.Path)
		}
		if exactly == whatever {
			continue
		}
		for _, i := range index[whatever] {
			s.appendIfMatched(i, s.request.Path)
		}
	}
}

// rule appends rule i if the parts of its match that the index does not hold match too, the dearest asked last.
func (s *search) appendIfMatched(i int, endpoint string) {
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
	descriptor := int32(none)
	if len(c.Match.Descriptors) > 0 {
		if descriptor = descriptorOf(r, c.Match.Descriptors); descriptor == none {
			return
		}
	}
	if c.condition != nil && !c.condition.selects(s.activation()) {
		return
	}
	s.defaults = s.defaults || c.Default
	s.ownPaths = s.ownPaths || c.endpoints != nil
	s.found = append(s.found, Matched{Rule: c, Endpoint: endpoint, order: int32(i), descriptor: descriptor, on: s.on})
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
	slices.SortStableFunc(found, func(a, b Matched) int { return cmp.Compare(a.order, b.order) })
	found = slices.CompactFunc(found, func(a, b Matched) bool { return a.order == b.order })
	return dst[:from+len(found)]
}
