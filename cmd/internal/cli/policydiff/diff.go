// Package policydiff compares policies of two sets of files: what is enforced differently, in the words of their YAML.
package policydiff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/rate"
	"github.com/weir-dev/weir/internal/compile/window"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Effect is what clients notice of a change.
type Effect string

// The effects.
const (
	Stricter  Effect = "stricter"  // the limit is lower, or applies to more requests
	Looser    Effect = "looser"    // the limit is higher, or applies to fewer requests
	Different Effect = "different" // neither follows from the policies, or both
	Same      Effect = "same"      // the decisions are the same
)

// Kind is what happens to a policy.
type Kind string

// The kinds.
const (
	New     Kind = "new"
	Gone    Kind = "gone"
	Renamed Kind = "renamed"
	Edited  Kind = "edited"
)

// Diff is what differs between two sets of policies.
type Diff struct {
	Before   string         `json:"before"` // the names of the two sets
	After    string         `json:"after"`
	Policies []PolicyChange `json:"policies"`
	// Limiters are those that differ in what they enforce, or in the responses to clients.
	Limiters []LimiterChange `json:"limiters,omitempty"`
}

// Scope is what of two sets is compared.
type Scope struct {
	// Policies accepts the scopes of policies: namespaces and [policyname.Cluster].
	Policies func(scope string) bool
	// Limiters accepts the names of Limiters, "namespace/name".
	Limiters func(name string) bool
}

// PolicyChange is a policy that differs.
type PolicyChange struct {
	Policy string `json:"policy"` // "namespace/name" or "_cluster/name"
	Kind   Kind   `json:"kind"`
	Effect Effect `json:"effect"`
	// Was is the name before a renaming.
	Was string `json:"was,omitempty"`
	// File and Line are the place in the later set, or in the earlier one of a policy that is gone.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Summary describes a policy that is new, gone or renamed.
	Summary string   `json:"summary,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Notices are what a replay of requests adds: who would notice the change.
	Notices []string `json:"notices,omitempty"`
}

// Change is a field that differs.
type Change struct {
	Field  string `json:"field"`          // "spec.tiers[paid].limit"
	From   string `json:"from,omitempty"` // as YAML, "" if the field is absent
	To     string `json:"to,omitempty"`
	Effect Effect `json:"effect"`
	Why    string `json:"why,omitempty"` // why the effect is what it is, unless it is obvious
}

// policy is a policy of one of the sets.
type policy struct {
	name   string
	spec   *policyapi.ClusterRateLimitPolicySpec // of a RateLimitPolicy without the fields of cluster policies
	labels map[string]string
	fields map[string]any // the spec as in YAML
	rules  []rules.Rule
	object policyfile.Object
}

// Compare compares two sets. If only one of them has a Limiter, its identity table applies to both.
func Compare(before, after *policyset.Set, scope Scope) (*Diff, error) {
	limiters, err := compareLimiters(before, after, scope.Limiters)
	if err != nil {
		return nil, err
	}
	before, after = before.WithLimiterOf(after), after.WithLimiterOf(before)
	older, err := policiesOf(before, scope.Policies)
	if err != nil {
		return nil, err
	}
	newer, err := policiesOf(after, scope.Policies)
	if err != nil {
		return nil, err
	}
	diff := &Diff{Policies: []PolicyChange{}, Limiters: limiters}
	var gone, added []*policy
	for _, name := range slices.Sorted(maps.Keys(older)) {
		if newer[name] == nil {
			gone = append(gone, older[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(newer)) {
		p := newer[name]
		if older[name] == nil {
			added = append(added, p)
			continue
		}
		if c := edited(older[name], p); c != nil {
			diff.Policies = append(diff.Policies, *c)
		}
	}
	for _, p := range added {
		if i := slices.IndexFunc(gone, func(g *policy) bool { return isRenamed(g, p) }); i >= 0 {
			diff.Policies = append(diff.Policies, renamed(gone[i], p))
			gone = slices.Delete(gone, i, i+1)
			continue
		}
		diff.Policies = append(diff.Policies, appeared(p))
	}
	for _, p := range gone {
		diff.Policies = append(diff.Policies, vanished(p))
	}
	slices.SortStableFunc(diff.Policies, func(a, b PolicyChange) int { return cmp.Compare(a.Policy, b.Policy) })
	return diff, nil
}

// Scopes returns the scopes of the policies of a set: namespaces and [policyname.Cluster].
func Scopes(set *policyset.Set) map[string]bool {
	scopes := map[string]bool{}
	for name := range set.Rules.Policies() {
		scope, _ := policyname.Split(name)
		scopes[scope] = true
	}
	return scopes
}

func policiesOf(set *policyset.Set, accepts func(scope string) bool) (map[string]*policy, error) {
	byName, places := map[string]*policy{}, map[string]policyfile.Object{}
	for _, o := range set.Objects() {
		if o.Kind != "Limiter" { // it can have the name of a policy
			places[o.Name] = o
		}
	}
	add := func(name string, spec *policyapi.ClusterRateLimitPolicySpec, labels map[string]string, of any) error {
		if scope, _ := policyname.Split(name); !accepts(scope) {
			return nil
		}
		encoded, err := json.Marshal(of)
		if err != nil {
			return err
		}
		p := &policy{name: name, spec: spec, labels: labels, object: places[name]}
		if err := json.Unmarshal(encoded, &p.fields); err != nil {
			return err
		}
		byName[name] = p
		return nil
	}
	valid := set.Valid()
	for i := range valid.Namespaced {
		p := &valid.Namespaced[i]
		if err := add(compile.Name(p), &policyapi.ClusterRateLimitPolicySpec{RateLimitPolicySpec: p.Spec}, p.Labels, p.Spec); err != nil {
			return nil, err
		}
	}
	for i := range valid.Cluster {
		p := &valid.Cluster[i]
		if err := add(compile.ClusterName(p), &p.Spec, p.Labels, p.Spec); err != nil {
			return nil, err
		}
	}
	for name, own := range set.Rules.Policies() {
		if p := byName[name]; p != nil {
			p.rules = own
		}
	}
	for name, p := range byName {
		if p.rules == nil { // it conflicts with another one
			delete(byName, name)
		}
	}
	return byName, nil
}

// edited returns the change of a policy that both sets have, nil without one.
func edited(before, after *policy) *PolicyChange {
	changes := compareFields(before, after)
	if !maps.Equal(before.labels, after.labels) {
		changes = append(changes, Change{
			Field: "metadata.labels", From: yamlOf(before.labels), To: yamlOf(after.labels), Effect: Different,
			Why: "a Limiter can select policies by their labels",
		})
	}
	if c := identityChange(before, after); c != nil {
		changes = append(changes, *c)
	}
	if len(changes) == 0 {
		return nil
	}
	c := &PolicyChange{Policy: after.name, Kind: Edited, Changes: changes, Effect: combine(changes), File: after.object.File, Line: after.object.Line}
	if sameRules(before, after) && maps.Equal(before.labels, after.labels) {
		c.Effect, c.Summary = Same, "enforces the same"
		for i := range c.Changes {
			c.Changes[i].Effect, c.Changes[i].Why = Same, ""
		}
		return c
	}
	replaces := len(before.spec.Replaces) > 0 || len(after.spec.Replaces) > 0 // the default applies in place of a policy that only reports
	switch {
	case isShadow(before) && isShadow(after):
		c.Summary = "with enforcement: Shadow, which denies nothing"
	case isShadow(before) && !replaces: // whatever it denies, it denied nothing before
		c.Effect = Stricter
	case isShadow(after) && !replaces:
		c.Effect = Looser
	}
	return c
}

// identityChange returns the change of what a policy counts by that follows from the identity table of the Limiter, nil without one.
func identityChange(before, after *policy) *Change {
	x, y := &before.rules[0], &after.rules[0]
	if x.Identifier == y.Identifier || before.spec.Axis != after.spec.Axis || !reflect.DeepEqual(before.fields["identifier"], after.fields["identifier"]) {
		return nil
	}
	return &Change{
		Field: "spec.identity of the Limiter", From: describeIdentifier(x), To: describeIdentifier(y), Effect: Different,
		Why: "counts by another identifier, and starts new counters",
	}
}

// describeIdentifier returns, for example, "header x-tenant-id".
func describeIdentifier(r *rules.Rule) string {
	text := strings.TrimSpace(string(r.Identifier.From) + " " + r.Identifier.Name)
	if r.Identifier.IPv6Prefix > 0 {
		text += fmt.Sprintf(" with ipv6Prefix %d", r.Identifier.IPv6Prefix)
	}
	if r.Identifier.Secret {
		text += ", a credential"
	}
	return text
}

func isShadow(p *policy) bool { return p.spec.Enforcement == policyapi.EnforcementShadow }

// sameRules reports whether two policies compile to the same rules, except for their names and the hashes of identifiers.
func sameRules(a, b *policy) bool {
	if len(a.rules) != len(b.rules) || a.name != b.name && !reflect.DeepEqual(a.fields, b.fields) {
		return false
	}
	for i := range a.rules {
		x, y := a.rules[i], b.rules[i]
		x.Policy, y.Policy = "", ""
		if x.HasSecrets() && !reflect.DeepEqual(a.fields["tiers"], b.fields["tiers"]) { // each set has a hash key of its own
			return false
		}
		x.Tiers, y.Tiers = withoutHashes(&x), withoutHashes(&y)
		if !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

func withoutHashes(r *rules.Rule) []rules.Tier {
	tiers := slices.Clone(r.Tiers)
	if r.HasSecrets() {
		for i := range tiers {
			tiers[i].When.Identifiers = nil
		}
	}
	return tiers
}

// combine returns the effect of several changes together.
func combine(changes []Change) Effect {
	effect := Same
	for i := range changes {
		switch e := changes[i].Effect; {
		case e == Same || e == effect:
		case effect == Same:
			effect = e
		default:
			return Different
		}
	}
	return effect
}

// isRenamed reports whether a new policy takes the place of one that is gone: it counts under its name, or is the same otherwise.
func isRenamed(gone, added *policy) bool {
	oldScope, oldName := policyname.Split(gone.name)
	newScope, newName := policyname.Split(added.name)
	if oldScope != newScope {
		return false
	}
	if cmp.Or(added.spec.CounterName, newName) == cmp.Or(gone.spec.CounterName, oldName) {
		return true
	}
	return reflect.DeepEqual(gone.fields, added.fields)
}

func renamed(gone, added *policy) PolicyChange {
	_, oldName := policyname.Split(gone.name)
	_, newName := policyname.Split(added.name)
	c := PolicyChange{
		Policy: added.name, Kind: Renamed, Was: gone.name, File: added.object.File, Line: added.object.Line, Changes: compareFields(gone, added),
	}
	c.Changes = slices.DeleteFunc(c.Changes, func(c Change) bool { return c.Field == "spec.counterName" })
	c.Effect = combine(c.Changes)
	if cmp.Or(added.spec.CounterName, newName) == cmp.Or(gone.spec.CounterName, oldName) {
		c.Summary = "keeps the counters"
	} else {
		c.Summary = "starts new counters; to keep them, set counterName: " + cmp.Or(gone.spec.CounterName, oldName)
		c.Effect = cmp.Or(map[Effect]Effect{Stricter: Different}[c.Effect], c.Effect)
		if c.Effect == Same {
			c.Effect = Looser
		}
	}
	return c
}

func appeared(p *policy) PolicyChange {
	c := PolicyChange{Policy: p.name, Kind: New, Effect: Stricter, Summary: describe(p), File: p.object.File, Line: p.object.Line}
	switch {
	case isShadow(p):
		c.Effect = Same
	case len(p.spec.Replaces) > 0:
		c.Effect = Different // the default that it replaces can be stricter
	}
	return c
}

func vanished(p *policy) PolicyChange {
	c := PolicyChange{Policy: p.name, Kind: Gone, Effect: Looser, Summary: describe(p), File: p.object.File, Line: p.object.Line}
	switch {
	case isShadow(p):
		c.Effect = Same
	case len(p.spec.Replaces) > 0:
		c.Effect = Different // the default applies again
	}
	return c
}

// describe returns, for example, "100 units per 1m for each Tenant, 2 tiers, enforcement: Shadow".
func describe(p *policy) string {
	var limits []string
	for _, r := range rate.ReadPolicy(&p.spec.RateLimitPolicySpec, func(string, string, ...any) {}) {
		limits = append(limits, fmt.Sprintf("%d per %s", r.Limit.Units(), window.Format(r.Window)))
	}
	text := strings.Join(limits, " and ") + " for each " + string(p.spec.Axis)
	if p.spec.Axis == policyapi.AxisCustom {
		text = strings.Join(limits, " and ") + " for each identifier"
	}
	if n := len(p.spec.Tiers); n > 0 {
		names := make([]string, n)
		for i := range p.spec.Tiers {
			names[i] = p.spec.Tiers[i].Name
		}
		text += ", with tiers " + strings.Join(names, ", ")
	}
	if p.spec.Match == nil && len(p.spec.TargetRefs) == 0 {
		text += ", for all requests"
	}
	if isShadow(p) {
		text += ", enforcement: Shadow"
	}
	return text
}
