package matching

import (
	"slices"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/pattern"
	"github.com/weir-dev/weir/limiter/rules/tables"
)

// Explained is what [Index.Explain] found about a rule.
type Explained struct {
	Rule *Compiled
	// Matched is nil if the rule does not match the request.
	Matched *Matched
	// Failed is the first condition that the request does not meet, NoCondition if the rule matches. For ConditionHeaders, Header is the
	// index of the header in the match.
	Failed Condition
	Header int
	// Uncertain is true if the rule counts as a match because a condition could not be evaluated.
	Uncertain bool
	// ReplacedBy is the policy that replaces this rule, a default, for the request, or "".
	ReplacedBy string
	// LeftOut is true if the rule matches and is not charged, because too many other rules match, see [Bounded].
	LeftOut bool
}

// Charged reports whether the request is charged to the rule, unless an unlimited tier applies.
func (e *Explained) Charged() bool { return e.Matched != nil && e.ReplacedBy == "" && !e.LeftOut }

// Explain reports for each rule, sorted by policy, whether it matches r, and if not, on which condition it fails. It compares r in the
// same way as [Index.Match], and takes longer.
func (x *Index) Explain(r *rules.Request) []Explained {
	matches := x.search(r)
	isCharged, replacers := map[*Compiled]Matched{}, x.certainlyCharged(matches)
	kept, _ := x.Bounded(x.Match(nil, r))
	for _, m := range x.NameEndpoints(kept, true) {
		isCharged[m.Rule] = m
	}
	explained := make([]Explained, 0, x.Len())
	for c := range x.Rules() {
		explained = append(explained, Explained{Rule: c})
		e := &explained[len(explained)-1]
		index := slices.IndexFunc(matches, func(m Matched) bool { return m.Rule == e.Rule })
		if index < 0 {
			failed := x.failedCondition(c, r)
			e.Failed, e.Header = failed.condition, failed.headerIndex
			continue
		}
		m, charged := isCharged[e.Rule]
		if !charged {
			m = matches[index]
			e.ReplacedBy = replacing(e.Rule, replacers, r.Domain)
			e.LeftOut = e.ReplacedBy == ""
		}
		e.Matched, e.Uncertain = &m, m.Uncertain()
	}
	return explained
}

// search returns all rules that match r, with replaced defaults.
func (x *Index) search(r *rules.Request) []Matched {
	s := search{index: x, request: r, kind: r.Kind(), steps: pattern.MaxSteps}
	s.find()
	return s.sorted(0)
}

// replacing returns the policy of the first match that replaces c for requests of domain, or "".
func replacing(c *Compiled, found []Matched, domain string) string {
	for i := range found {
		if isReplaced(c, found[i:i+1], domain) {
			return found[i].Rule.Policy
		}
	}
	return ""
}

// failedCondition returns the condition of the rule that r does not meet. It searches the rule alone, at first with its index entries, and
// then with fewer of them: the search reaches the conditions that are not in the index when all index entries that are left match.
func (x *Index) failedCondition(c *Compiled, r *rules.Request) failedCondition {
	reach := func(m *rules.Match) (failedCondition, bool) {
		alone := &Index{namespaces: x.namespaces, clock: x.clock}
		(&tables.Edit[*Compiled]{Version: 1, Rule: c, Match: m}).Apply(&alone.tables)
		s := search{index: alone, request: r, kind: r.Kind(), steps: pattern.MaxSteps}
		s.find()
		return s.failed, s.failed.condition != NoCondition || len(s.found) > 0
	}
	if !c.AppliesTo(r.Domain) {
		return failedCondition{condition: ConditionDomain}
	}
	if c.Match.Routes != nil && r.Kubernetes == nil && !r.NamesRoute() { // the cause, also if the request is then of another kind
		return failedCondition{condition: ConditionRoutes}
	}
	if c.kinds&r.Kind() == 0 {
		return failedCondition{condition: ConditionKind}
	}
	if failed, reached := reach(&c.Match); reached {
		return failed
	}
	switch _, reached := reach(&rules.Match{Hosts: c.Match.Hosts, Routes: c.Match.Routes}); {
	case c.Match.Kubernetes != nil:
		return failedCondition{condition: failedIndex(c.Match.Kubernetes, r.Kubernetes)}
	case !reached && c.Match.Routes != nil:
		return failedCondition{condition: ConditionRoutes}
	case !reached:
		return failedCondition{condition: ConditionHosts}
	case len(c.Match.Paths) > 0:
		return failedCondition{condition: ConditionPaths}
	default:
		return failedCondition{condition: ConditionDescriptors}
	}
}

// failedIndex returns the condition of a match in the index that the write does not meet.
func failedIndex(m *rules.KubernetesMatch, r *rules.KubernetesRequest) Condition {
	if len(m.Namespaces) > 0 && !slices.Contains(m.Namespaces, r.Namespace) {
		return ConditionNamespaces
	}
	return ConditionResources
}
