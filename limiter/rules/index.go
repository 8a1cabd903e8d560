package rules

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter"
)

// Index is a Set made ready for matching: domain, then host, then path, each found by look-up, so that a request
// meets only the rules that its domain, host and path select. It is immutable and safe for concurrent use.
type Index struct {
	revision string
	rules    []Compiled
	domains  map[string]*hostIndex
}

// Compiled is a rule with what its matching and counting need, worked out once.
type Compiled struct {
	Rule
	Limit  limiter.Limit
	Keys   limiter.KeySpace
	prefix string // of Keys
	// headers are the compiled expressions of Match.Headers; nil where the type is not RegularExpression.
	headers []*regexp.Regexp
}

// Matched is a rule that a request is charged to.
type Matched struct {
	Rule *Compiled
	// Endpoint is the path pattern that matched, or the request's path where the rule names none.
	Endpoint string
	order    int
}

type hostIndex struct {
	exact    map[string]*pathIndex
	wildcard map[string]*pathIndex // by ".shop.example" for "*.shop.example"
	any      *pathIndex
}

type pathIndex struct {
	exact  map[string][]int
	prefix map[string][]int // by the prefix without trailing slash; "" for "/"
	regex  []regexRule
	any    []int
}

type regexRule struct {
	expression *regexp.Regexp
	rule       int
}

// NewIndex compiles set for matching. Keys get the prefix given ("weir:"). The set must be what the compiler makes:
// an error names the rule that is not.
func NewIndex(set Set, revision, prefix string) (*Index, error) {
	x := &Index{revision: revision, rules: make([]Compiled, len(set.Rules)), domains: map[string]*hostIndex{}}
	for i, rule := range set.Rules {
		if i > 0 && set.Rules[i-1].Policy >= rule.Policy {
			return nil, fmt.Errorf("rule %s: not in the order of names after %s", rule.Policy, set.Rules[i-1].Policy)
		}
		c, err := compile(rule, prefix)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.Policy, err)
		}
		x.rules[i] = c
		if err := x.add(i); err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.Policy, err)
		}
	}
	return x, nil
}

// Revision is the revision of the Set.
func (x *Index) Revision() string { return x.revision }

// Len is the number of rules.
func (x *Index) Len() int { return len(x.rules) }

// Policies yields the names of the rules' policies, sorted.
func (x *Index) Policies() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range x.rules {
			if !yield(x.rules[i].Policy) {
				return
			}
		}
	}
}

// Has says whether policy has a rule.
func (x *Index) Has(policy string) bool {
	_, found := slices.BinarySearchFunc(x.rules, policy, func(c Compiled, name string) int {
		return strings.Compare(c.Policy, name)
	})
	return found
}

func compile(rule Rule, prefix string) (Compiled, error) {
	limit, err := rule.Limit()
	if err != nil {
		return Compiled{}, err
	}
	c := Compiled{Rule: rule, Limit: limit, Keys: limiter.NewKeySpace(prefix, rule.Axis, rule.Policy, limit), prefix: prefix}
	c.headers = make([]*regexp.Regexp, len(rule.Match.Headers))
	for i, h := range rule.Match.Headers {
		if h.Type != HeaderRegex {
			continue
		}
		if c.headers[i], err = CompileExpression(h.Value); err != nil {
			return Compiled{}, err
		}
	}
	return c, nil
}

// keysUnder are the rule's keys for another limit, which its units tell apart from the rule's own.
func (c *Compiled) keysUnder(limit limiter.Limit) limiter.KeySpace {
	return limiter.NewKeySpace(c.prefix, c.Axis, fmt.Sprintf("%s@%d", c.Policy, limit.Units()), limit)
}

// CompileExpression compiles a regular expression as Weir matches it: RE2, against the whole text.
func CompileExpression(expression string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expression); err != nil {
		return nil, err // the user's own text stands in the message, not our anchors
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

func (x *Index) add(i int) error {
	rule := &x.rules[i].Rule
	domain := x.domains[rule.Domain]
	if domain == nil {
		domain = &hostIndex{exact: map[string]*pathIndex{}, wildcard: map[string]*pathIndex{}, any: newPathIndex()}
		x.domains[rule.Domain] = domain
	}
	if len(rule.Match.Hosts) == 0 {
		return domain.any.add(i, rule.Match.Paths)
	}
	for _, host := range rule.Match.Hosts {
		if err := domain.of(host).add(i, rule.Match.Paths); err != nil {
			return err
		}
	}
	return nil
}

func (h *hostIndex) of(host string) *pathIndex {
	table, key := h.exact, host
	if suffix, ok := strings.CutPrefix(host, "*"); ok {
		table, key = h.wildcard, suffix
	}
	if table[key] == nil {
		table[key] = newPathIndex()
	}
	return table[key]
}

func newPathIndex() *pathIndex {
	return &pathIndex{exact: map[string][]int{}, prefix: map[string][]int{}}
}

func (p *pathIndex) add(i int, paths []PathMatch) error {
	if len(paths) == 0 {
		p.any = append(p.any, i)
	}
	for _, m := range paths {
		switch m.Type {
		case PathExact:
			p.exact[m.Value] = append(p.exact[m.Value], i)
		case PathPrefix:
			key := strings.TrimSuffix(m.Value, "/")
			p.prefix[key] = append(p.prefix[key], i)
		case PathRegex:
			expression, err := CompileExpression(m.Value)
			if err != nil {
				return err
			}
			p.regex = append(p.regex, regexRule{expression, i})
		default:
			return fmt.Errorf("unknown path match %q", m.Type)
		}
	}
	return nil
}

// Match appends to dst the rules that r is charged to, in the order of their names. The only allocation is
// the growth of dst. A rule appears once, with the most specific of its path patterns that match: exact before
// prefix, the longer prefix before the shorter, before an expression.
func (x *Index) Match(dst []Matched, r *Request) []Matched {
	domain := x.domains[r.Domain]
	if domain == nil {
		return dst
	}
	from := len(dst)
	if p := domain.exact[r.Host]; p != nil {
		dst = x.matchPath(dst, p, r)
	}
	if len(domain.wildcard) > 0 {
		for i := 1; i < len(r.Host); i++ { // "*." stands for at least one character
			if r.Host[i] != '.' {
				continue
			}
			if p := domain.wildcard[r.Host[i:]]; p != nil {
				dst = x.matchPath(dst, p, r)
			}
		}
	}
	dst = x.matchPath(dst, domain.any, r)
	return sortUnique(dst, from)
}

func (x *Index) matchPath(dst []Matched, p *pathIndex, r *Request) []Matched {
	for _, i := range p.exact[r.Path] {
		dst = x.matchRest(dst, i, r.Path, r)
	}
	if len(p.prefix) > 0 {
		for end := len(r.Path); end >= 0; end = strings.LastIndexByte(r.Path[:end], '/') {
			prefix := strings.TrimSuffix(r.Path[:end], "/")
			for _, i := range p.prefix[prefix] {
				dst = x.matchRest(dst, i, prefixName(prefix), r)
			}
			if end == 0 || prefix == "" {
				break
			}
		}
	}
	for _, e := range p.regex {
		if e.expression.MatchString(r.Path) {
			dst = x.matchRest(dst, e.rule, patternOf(e.expression), r)
		}
	}
	for _, i := range p.any {
		dst = x.matchRest(dst, i, r.Path, r)
	}
	return dst
}

func prefixName(prefix string) string {
	if prefix == "" {
		return "/"
	}
	return prefix
}

// patternOf is the user's text of an expression that CompileExpression anchored.
func patternOf(e *regexp.Regexp) string {
	s := e.String()
	return s[len(`\A(?:`) : len(s)-len(`)\z`)]
}

// matchRest appends rule i if the parts of its match that the index does not hold match too.
func (x *Index) matchRest(dst []Matched, i int, endpoint string, r *Request) []Matched {
	rule := &x.rules[i]
	if len(rule.Match.Methods) > 0 && !slices.Contains(rule.Match.Methods, r.Method) {
		return dst
	}
	for j := range rule.Match.Headers {
		if !rule.matchHeader(j, r) {
			return dst
		}
	}
	return append(dst, Matched{Rule: rule, Endpoint: endpoint, order: i})
}

func (c *Compiled) matchHeader(j int, r *Request) bool {
	h := &c.Match.Headers[j]
	value, ok := r.Headers[h.Name]
	switch h.Type {
	case HeaderExact:
		ok = ok && value == h.Value
	case HeaderRegex:
		ok = ok && c.headers[j].MatchString(value)
	}
	return ok != h.Invert
}

// sortUnique sorts dst[from:] by rule and keeps the first of each.
func sortUnique(dst []Matched, from int) []Matched {
	found := dst[from:]
	slices.SortStableFunc(found, func(a, b Matched) int { return a.order - b.order })
	found = slices.CompactFunc(found, func(a, b Matched) bool { return a.order == b.order })
	return dst[:from+len(found)]
}
