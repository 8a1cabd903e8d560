package objects

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// reportTooMany reports each policy for a target that can match a request together with as many earlier ones for the target as a request is
// charged to. It takes linear time: a file can have any number of policies for a target.
func reportTooMany(out *importer.Result) {
	type target struct{ domain, name string }
	earlier := map[target]*matches{}
	for i := range out.Policies {
		p := &out.Policies[i]
		match := p.Spec.Match.HTTP
		for _, name := range p.Targets {
			key := target{p.Domain, name}
			if earlier[key] == nil {
				earlier[key] = &matches{byNames: map[string]*sameNames{}}
			}
			if earlier[key].haveCommonRequests(match, matching.MaxPoliciesPerRequest) {
				out.Add(p.Place, importer.Difference, "%d or more earlier policies for %s can match the same request, and a request is charged to the oldest %d "+
					"of its namespace only; combine rules, or let their conditions exclude each other", matching.MaxPoliciesPerRequest, name, matching.MaxPoliciesPerRequest)
			}
			earlier[key].add(match)
		}
	}
}

// matches are the matches of policies, by the names of what they compare with one value.
type matches struct {
	groups  []*sameNames
	byNames map[string]*sameNames
}

// sameNames are matches that compare the same parts of a request with one value each: the path and headers.
type sameNames struct {
	names   []string
	members []member
	// tables count the members by their values of some of the names, and by their methods. The key is these names.
	tables map[string]map[string]map[string]int
}

type member struct {
	values  map[string]string // by name
	methods string            // separated by spaces, empty for all
}

// newMember returns what m compares with one value.
func newMember(m *v1alpha1.HTTPMatch) member {
	values := map[string]string{}
	if len(m.Paths) == 1 && m.Paths[0].Type == v1alpha1.PathExact { // an imported rule has a single path
		values["path"] = reading.NormalPath(m.Paths[0].Value)
	}
	for _, h := range m.Headers {
		if h.Type == v1alpha1.HeaderExact && !h.Invert && h.Value != nil {
			values["header "+strings.ToLower(string(h.Name))] = *h.Value
		}
	}
	var methods []string
	for _, method := range m.Methods {
		methods = append(methods, string(method))
	}
	return member{values, strings.Join(slices.Sorted(slices.Values(methods)), " ")}
}

// valuesOf returns the values of names as one text.
func (m *member) valuesOf(names []string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(m.values[name])
		b.WriteByte(0)
	}
	return b.String()
}

// haveCommonRequests reports whether at least n of the matches and match can match the same request, as far as methods, exact paths and exact headers
// show it.
func (e *matches) haveCommonRequests(match *v1alpha1.HTTPMatch, n int) bool {
	m := newMember(match)
	for _, group := range e.groups {
		shared := slices.DeleteFunc(slices.Clone(group.names), func(name string) bool {
			_, compares := m.values[name]
			return !compares
		})
		for methods, count := range group.table(shared)[m.valuesOf(shared)] {
			if haveCommonMethods(methods, m.methods) {
				n -= count
			}
		}
		if n <= 0 {
			return true
		}
	}
	return false
}

func haveCommonMethods(a, b string) bool {
	return a == "" || b == "" || slices.ContainsFunc(strings.Fields(a), func(method string) bool { return slices.Contains(strings.Fields(b), method) })
}

// table returns the table for some of the names.
func (g *sameNames) table(names []string) map[string]map[string]int {
	key := strings.Join(names, "\x00")
	if g.tables[key] == nil {
		g.tables[key] = map[string]map[string]int{}
		for i := range g.members {
			g.members[i].count(g.tables[key], names)
		}
	}
	return g.tables[key]
}

func (m *member) count(table map[string]map[string]int, names []string) {
	values := m.valuesOf(names)
	if table[values] == nil {
		table[values] = map[string]int{}
	}
	table[values][m.methods]++
}

func (e *matches) add(match *v1alpha1.HTTPMatch) {
	m := newMember(match)
	names := slices.Sorted(maps.Keys(m.values))
	key := strings.Join(names, "\x00")
	group := e.byNames[key]
	if group == nil {
		group = &sameNames{names: names, tables: map[string]map[string]map[string]int{}}
		e.byNames[key] = group
		e.groups = append(e.groups, group)
	}
	group.members = append(group.members, m)
	for key, table := range group.tables {
		m.count(table, splitNames(key))
	}
}

// splitNames returns the names in the key of a table.
func splitNames(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, "\x00")
}
