// Package matching finds the rules that a request is charged to, with its identifier, its limit and its cost under each.
//
// An [Index] is a rules.Set compiled for matching.
package matching

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/persistent"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
	"github.com/weir-dev/weir/limiter/rules/methods"
	"github.com/weir-dev/weir/limiter/rules/pattern"
	"github.com/weir-dev/weir/limiter/rules/reading"
	"github.com/weir-dev/weir/limiter/rules/tables"
)

// Matched is a rule that a request is charged to.
type Matched struct {
	Rule *Compiled
	// Endpoint is the path pattern that matched, or the path of the request if the rule has no paths. A rule that counts by the path of
	// the request has at most 1000 paths in use. Its Endpoint is [rules.OtherEndpoints] for all other paths.
	Endpoint   string
	certainty  certainty        // int32, as descriptor: 8 bytes more in a Matched make matching 50 % slower
	descriptor int32            // index of the descriptor that the rule matched, or noDescriptor
	namespace  *rules.Namespace // of a write to the Kubernetes API; nil if unknown or absent
	on         *expr.Activation // the request as CEL value; nil if the identifier, the cost and the tiers have no expressions
}

// certainty is how certain a match is.
type certainty int32

const (
	matchCertain   certainty = iota
	matchUncertain           // a condition could not be evaluated, because of what the client sent, or not all readings of the path meet it
	matchUnknown             // no reading of the path certainly meets the conditions
)

func certaintyOf(uncertain bool) certainty {
	if uncertain {
		return matchUncertain
	}
	return matchCertain
}

// Uncertain reports whether the rule matches because a condition could not be evaluated, because of what the client sent.
func (m Matched) Uncertain() bool { return m.certainty != matchCertain }

// Match appends to dst the rules that r is charged to, sorted by policy name. It allocates only to grow dst, for rules with expressions, for
// several readings of a path, and for a default among more than 32 rules. A rule appears once, with the most specific path pattern that matches: an
// exact path before a prefix, a longer prefix before a shorter prefix, and any prefix before a regular expression. A rule that counts each endpoint
// separately appears once for each endpoint that a reading of the path leads to. Call [Index.NameEndpoints] for the matches that the request is charged to.
func (x *Index) Match(dst []Matched, r *rules.Request) []Matched {
	start := len(dst)
	s := search{index: x, request: r, kind: r.Kind(), found: dst, steps: pattern.MaxSteps}
	s.find()
	matched := s.sorted(start)
	if s.defaults {
		matched = x.dropReplacedDefaults(matched, start, r.Domain)
	}
	return matched
}

// dropReplacedDefaults removes from dst[start:] the defaults that another rule replaces for requests of domain.
func (x *Index) dropReplacedDefaults(dst []Matched, start int, domain string) []Matched {
	found := dst[start:]
	kept, charged := dst[:start], x.certainlyCharged(found)
	for i := range found {
		if !isReplaced(found[i].Rule, charged, domain) {
			kept = append(kept, found[i]) // in place: a default replaces no other rule, so an overwritten default is not needed any more
		}
	}
	return kept
}

// certainlyCharged returns the matches of policies that are within the bound of a request with all of their rates, also if no default is replaced. A
// policy beyond it does not limit as its author intends, so it must not replace a default either.
func (x *Index) certainlyCharged(found []Matched) []Matched {
	if len(found) <= MaxPoliciesPerRequest {
		return found
	}
	kept, leftOut := x.Bounded(slices.Clone(found))
	isLeftOut := func(m Matched) bool {
		return slices.ContainsFunc(leftOut, func(o Matched) bool { return o.Rule.policyName == m.Rule.policyName })
	}
	return slices.DeleteFunc(kept, isLeftOut)
}

// isReplaced compares with rules that are not defaults. dropReplacedDefaults never removes those. A rule whose match is uncertain replaces
// no default: a client must not replace a strict default by a rule whose conditions it makes too expensive to evaluate.
func isReplaced(c *Compiled, found []Matched, domain string) bool {
	if !c.Default {
		return false
	}
	for i := range found {
		if found[i].Rule.Replaces(&c.Rule, domain) && !found[i].Uncertain() {
			return true
		}
	}
	return false
}

// NameEndpoints replaces the paths of requests by the names that they are counted by, and removes matches that become equal. With peek, the
// request is not counted: its path takes none of the 1000 paths of a rule.
func (x *Index) NameEndpoints(matched []Matched, peek bool) []Matched {
	for i := range matched {
		switch m := &matched[i]; {
		case m.Rule.endpoints == nil || m.Endpoint == "":
		case peek:
			m.Endpoint = m.Rule.endpoints.Peek(m.Endpoint, x.clock)
		default:
			m.Endpoint = m.Rule.endpoints.Name(m.Endpoint, x.clock)
		}
	}
	return slices.CompactFunc(matched, func(a, b Matched) bool { return a.Rule == b.Rule && a.Endpoint == b.Endpoint })
}

// search is the state of one call of Match.
type search struct {
	index   *Index
	request *rules.Request
	kind    rules.RequestKinds
	found   []Matched
	on      *expr.Activation // nil until an expression is evaluated
	// namespace of a write to the Kubernetes API; nil if unknown or absent.
	namespace *rules.Namespace
	steps     int             // that regular expressions may still take
	cost      int             // bytes that were looked up in maps, for tests
	compared  int             // rules that were compared because of a descriptor, for tests
	failed    failedCondition // of the rule that was compared last and did not match, for Explain
	defaults  bool            // a default was found
	readings  *readingSearch  // nil if the path has one reading
	queries   []rules.Request // the readings of the query; nil until an expression reads one that has several
	methods   methods.Others
	// lookedUp is the number of the descriptor by which rules are looked up, beginning with 1. A rule is compared with this one alone: with all
	// of them, the work would grow with the square of their number.
	lookedUp int32
	// folded is foldedOf without regard to case.
	foldedOf, folded string
}

func (s *search) find() {
	if s.request.RawPath != "" {
		s.readings = newReadingSearch(s.request)
	}
	switch s.kind {
	case rules.KubernetesWrites:
		s.findKubernetes(s.index)
	default:
		s.findInDomains()
	}
}

// findInDomains finds the rules for a request that is not a write to the Kubernetes API.
func (s *search) findInDomains() {
	// A request without a domain matches only the rules for all domains.
	if domain := s.index.tables.Domains.Get(s.request.Domain); domain != nil && s.request.Domain != "" {
		s.findInDomain(domain)
	}
	if everywhere := s.index.tables.Everywhere; everywhere != nil {
		s.findInDomain(everywhere)
	}
}

func (s *search) findInDomain(h *tables.Hosts[*Compiled]) {
	if s.kind != rules.OnlyDescriptors {
		s.findByHost(h)
	} else if h.Any != nil { // without host and path
		for _, c := range h.Any.Any.Rules {
			s.appendIfMatched(c, "", false)
		}
	}
	s.findByDescriptor(&h.Descriptors)
	s.findByRoute(&h.Routes)
}

func (s *search) findByHost(h *tables.Hosts[*Compiled]) {
	host := s.request.Host
	if h.Exact.Len() > 0 && len(host) <= pattern.MaxHost {
		s.cost += len(host)
		if p := h.Exact.Get(host); p != nil {
			s.findByPath(p)
		}
	}
	if h.Wildcard.Len() > 0 {
		for i := max(1, len(host)-h.WildcardLengths.Longest()); i < len(host); i++ { // "*" matches at least one character
			if host[i] != '.' || !h.WildcardLengths.Has(len(host)-i) {
				continue
			}
			s.cost += len(host) - i
			if p := h.Wildcard.Get(host[i:]); p != nil {
				s.findByPath(p)
			}
		}
	}
	if h.Any != nil {
		s.findByPath(h.Any)
	}
}

func (s *search) findByPath(p *tables.Paths[*Compiled]) {
	if s.readings == nil {
		s.findByReading(p, s.request.Path)
	} else {
		s.findByReadings(p)
	}
	for _, c := range p.Any.Rules {
		s.appendOfAnyPath(c)
	}
}

// findByReading finds the rules whose paths match one reading of the path.
func (s *search) findByReading(p *tables.Paths[*Compiled], path string) {
	s.findLiteral(&p.Literals, path)
	if p.Folded != nil {
		s.findLiteral(p.Folded, s.fold(path))
	}
	for _, c := range p.Regexps.Rules {
		for i := range c.regexps {
			if matches, certain := s.pattern(c.regexps[i].pattern, path); matches || !certain {
				s.appendIfMatched(c, c.regexps[i].name, !certain)
			}
		}
	}
}

// pattern compares a reading of the path.
func (s *search) pattern(p *pattern.Regexp, path string) (matches, certain bool) {
	if s.readings != nil && s.readings.current != 0 {
		return p.MatchesWithin(path, &s.readings.steps, 0)
	}
	return p.Matches(path, &s.steps)
}

func (s *search) findLiteral(p *tables.Literals[*Compiled], path string) {
	path = path[:min(len(path), pattern.MaxPath)]
	if p.Exact.Len() > 0 {
		s.cost += len(path)
		for _, c := range p.Exact.Get(path).Rules {
			s.appendIfMatched(c, path, false)
		}
	}
	if p.Prefix.Len() > 0 {
		s.findByPrefix(p, path)
	}
}

// findByPrefix finds the prefixes of path, the longest first. It looks up only prefixes of a length that the index has.
func (s *search) findByPrefix(p *tables.Literals[*Compiled], path string) {
	end := len(path)
	if longest := p.PrefixLengths.Longest(); end > longest {
		end = strings.LastIndexByte(path[:longest+1], '/')
	}
	for ; end >= 0; end = strings.LastIndexByte(path[:end], '/') {
		prefix := strings.TrimSuffix(path[:end], "/")
		if !p.PrefixLengths.Has(len(prefix)) {
			continue
		}
		s.cost += len(prefix)
		for _, c := range p.Prefix.Get(prefix).Rules {
			s.appendIfMatched(c, prefixName(prefix), false)
		}
	}
}

func prefixName(prefix string) string {
	if prefix == "" {
		return "/"
	}
	return prefix
}

func (s *search) findByDescriptor(index *persistent.Map[int, *tables.Entries[*Compiled]]) {
	if index.Len() == 0 {
		return
	}
	for i, d := range s.request.Descriptors {
		s.lookedUp = int32(i) + 1
		entries := index.Get(len(d))
		if entries == nil {
			continue
		}
		for position := range entries.ByValue {
			s.appendMatching(entries.ByValue[position].Get(d[position]))
		}
		s.appendMatching(entries.ByKey.Get(d[0].Key))
	}
	s.lookedUp = 0
}

// appendMatching compares the rules with the request.
func (s *search) appendMatching(found tables.List[*Compiled]) {
	s.compared += len(found.Rules)
	for _, c := range found.Rules {
		s.appendOfAnyPath(c)
	}
}

// appendIfMatched appends the rule if the conditions that are not in the index match too. The most expensive condition comes last. Uncertain
// means that the path could not be compared within the steps of the request.
func (s *search) appendIfMatched(c *Compiled, endpoint string, uncertain bool) {
	r := s.request
	if c.kinds&s.kind == 0 {
		s.failed = failedCondition{condition: ConditionKind}
		return
	}
	if len(c.Match.Methods) > 0 && !slices.Contains(c.Match.Methods, r.Method) {
		if !s.methods.AnyOf(c.Match.Methods, r) {
			s.failed = failedCondition{condition: ConditionMethods}
			return
		}
		uncertain = true
	}
	for j := range c.headers {
		meets, certain := c.headers[j].Meets(r, &s.steps)
		if certain && !meets {
			s.failed = failedCondition{condition: ConditionHeaders, headerIndex: j}
			return
		}
		uncertain = uncertain || !certain
	}
	failed, certain := c.comesFrom(r)
	if failed != NoCondition {
		s.failed = failedCondition{condition: failed}
		return
	}
	uncertain = uncertain || !certain
	descriptor := s.descriptor(c)
	if len(c.descriptor) > 0 && descriptor == noDescriptor {
		s.failed = failedCondition{condition: ConditionDescriptors}
		return
	}
	if c.condition != nil {
		selected, certain := s.selects(c)
		if certain && !selected {
			s.failed = failedCondition{condition: ConditionExpression}
			return
		}
		uncertain = uncertain || !certain
	}
	m := Matched{Rule: c, Endpoint: endpoint, certainty: certaintyOf(uncertain), descriptor: descriptor}
	if c.sharesBudget {
		m.on = s.activation() // shared by all rules, because it has what their expressions can still cost
	}
	if m.isSkipped(r) {
		s.failed = failedCondition{condition: ConditionIdentifier}
		return
	}
	s.defaults = s.defaults || c.Default
	s.found = append(s.found, m)
	if s.readings != nil {
		s.readings.byMatch = append(s.readings.byMatch, s.readings.current)
	}
}

// comesFrom returns the condition on the address of the client that the request does not meet, or NoCondition. It is unknown whether an address
// that cannot be read meets one: a client must not avoid a policy by it.
func (c *Compiled) comesFrom(r *rules.Request) (failed Condition, certain bool) {
	switch {
	case c.clients != nil && !pattern.Within(c.clients, r.ClientIP):
		if !r.InvalidClientIP {
			return ConditionCIDRs, true
		}
		return NoCondition, false
	case c.exempt != nil && pattern.Within(c.exempt, r.ClientIP):
		return ConditionExceptCIDRs, true
	default:
		return NoCondition, true
	}
}

// descriptor returns the index of the descriptor by which the rule was looked up if it matches, or else noDescriptor.
func (s *search) descriptor(c *Compiled) int32 {
	switch {
	case len(c.descriptor) == 0:
		return s.lookedUp - 1
	case s.lookedUp == 0: // only for Explain
		return descriptorOf(s.request, c.descriptor)
	case pattern.MatchesDescriptor(s.request.Descriptors[s.lookedUp-1], c.descriptor):
		return s.lookedUp - 1
	default:
		return noDescriptor
	}
}

func (s *search) selects(c *Compiled) (selected, certain bool) {
	switch {
	case s.readings != nil && c.condition.Reads.Path:
		return s.readings.selects(s.activation(), c)
	case !c.condition.Reads.IsAmbiguous(s.request):
		return c.condition.Selects(s.activation(), &c.Rule)
	}
	if s.queries == nil {
		s.queries = expr.RequestsOf(s.request, []string{s.request.Path})
	}
	anyMet, allMet := false, true
	for i := range s.queries {
		one, certain := c.condition.Selects(s.activation().Reading(&s.queries[i]), &c.Rule)
		if !certain {
			return false, false
		}
		anyMet, allMet = anyMet || one, allMet && one
	}
	return anyMet, anyMet == allMet
}

func (s *search) activation() *expr.Activation {
	if s.on == nil {
		s.on = expr.NewActivation(s.request)
	}
	return s.on
}

// activation returns the CEL value of r.
//
// If the rule matched a descriptor, it is the first one in the value: expressions of a policy with match.Descriptors read its entries by number.
func (m Matched) activation(r *rules.Request) *expr.Activation {
	if m.descriptor > 0 {
		first := *r
		first.Descriptors = slices.Clone(r.Descriptors)
		descriptor := first.Descriptors[m.descriptor]
		copy(first.Descriptors[1:m.descriptor+1], r.Descriptors[:m.descriptor])
		first.Descriptors[0] = descriptor
		r = &first
	}
	switch {
	case m.on == nil:
		return expr.NewActivation(r)
	case m.on.Request == r:
		return m.on
	default:
		return m.on.Reading(r)
	}
}

// sorted sorts what was found from from, and keeps each rule once, see Match.
func (s *search) sorted(start int) []Matched {
	if s.readings != nil {
		return s.readings.sorted(s.found, start)
	}
	return sortUnique(s.found, start)
}

// sortUnique sorts dst[from:] by rule and keeps the first entry of each rule, which is certain if any is.
func sortUnique(dst []Matched, start int) []Matched {
	found := dst[start:]
	if isSortedUnique(found) {
		return dst
	}
	slices.SortStableFunc(found, func(a, b Matched) int {
		if a.Rule == b.Rule {
			return cmp.Compare(a.certainty, b.certainty)
		}
		return compareRules(a.Rule, b.Rule)
	})
	found = slices.CompactFunc(found, func(a, b Matched) bool { return a.Rule == b.Rule })
	return dst[:start+len(found)]
}

// isSortedUnique reports whether there is nothing to sort: the lists of an index are sorted, and most requests match rules of one of them.
func isSortedUnique(found []Matched) bool {
	for i := 1; i < len(found); i++ {
		if compareRules(found[i-1].Rule, found[i].Rule) >= 0 {
			return false
		}
	}
	return true
}

// fold returns a path of the request, folded, and keeps the result: many indexes look up the same path.
func (s *search) fold(path string) string {
	if s.foldedOf != path || s.folded == "" {
		s.foldedOf, s.folded = path, reading.FoldPath(path)
	}
	return s.folded
}
