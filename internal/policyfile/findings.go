package policyfile

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/lintrule"
)

// Findings are what weir lint finds in files, beyond their problems.
type Findings struct {
	// Warnings and notes about valid policies, sorted by file and line.
	Warnings []Problem
	// Suppressed are the warnings and notes that annotations suppress.
	Suppressed []Suppressed
}

// Findings returns all warnings and notes. It has more of them than [Result.Warnings]: those about what only files have, such as a policy without a
// namespace, and about policies that others replace on purpose.
func (r *Result) Findings() Findings {
	found := append(r.warnings(), r.overridden()...)
	for _, o := range r.sorted() {
		if o.namespaceIsDefault && isPolicyKind(o.text("kind")) {
			found = append(found, o.problem(lintrule.DefaultNamespace, "metadata", fmt.Sprintf(
				"has no namespace, so that the policy limits the requests of domain %s; set metadata.namespace", DefaultNamespace)))
		}
	}
	var f Findings
	f.Warnings, f.Suppressed = r.suppress(found)
	f.Warnings = append(f.Warnings, r.suppressionWarnings(f.Suppressed)...)
	slices.SortStableFunc(f.Warnings, byPlace)
	slices.SortStableFunc(f.Suppressed, func(a, b Suppressed) int { return byPlace(a.Problem, b.Problem) })
	return f
}

// overridden returns a note for each default that another policy replaces in a domain.
func (r *Result) overridden() (problems []Problem) {
	byPolicy := map[string][]redundancy.Override{}
	for _, override := range r.overrides {
		if override.Reason != "" && r.defined[keyOf(override.Policy, true)] != nil {
			byPolicy[override.Policy] = append(byPolicy[override.Policy], override)
		}
	}
	for policy, overrides := range byPolicy {
		_, message := redundancy.OverriddenCondition(overrides)
		problems = append(problems, r.defined[keyOf(policy, true)].problem(lintrule.Overridden, "spec", message))
	}
	return problems
}

// suppress splits findings into those that annotations suppress and the others, both sorted by file and line.
func (r *Result) suppress(found []Problem) (kept []Problem, suppressed []Suppressed) {
	slices.SortStableFunc(found, byPlace)
	objects := map[string]*object{}
	for _, o := range r.defined {
		objects[o.policy()+"\n"+o.file] = o
	}
	for i := range found {
		o := objects[found[i].Policy+"\n"+found[i].File]
		if o == nil {
			kept = append(kept, found[i])
			continue
		}
		own, hidden := o.suppress(found[i : i+1])
		kept, suppressed = append(kept, own...), append(suppressed, hidden...)
	}
	return kept, suppressed
}

func (r *Result) suppressionWarnings(suppressed []Suppressed) (problems []Problem) {
	type place struct{ policy, file string }
	rules := map[place]map[string]bool{}
	for i := range suppressed {
		at := place{suppressed[i].Policy, suppressed[i].File}
		if rules[at] == nil {
			rules[at] = map[string]bool{}
		}
		rules[at][suppressed[i].Rule] = true
	}
	for _, o := range r.sorted() {
		problems = append(problems, o.suppressionWarnings(rules[place{o.policy(), o.file}])...)
	}
	return problems
}

// sorted returns the defined objects, sorted by file and line.
func (r *Result) sorted() []*object {
	objects := make([]*object, 0, len(r.defined))
	for _, o := range r.defined {
		objects = append(objects, o)
	}
	slices.SortFunc(objects, func(a, b *object) int { return byPlace(a.problem("", "", ""), b.problem("", "", "")) })
	return objects
}

// Limiter is a Limiter in the files that has no problem.
type Limiter struct {
	Name string // "namespace/name"
	File string
	Line int
	JSON []byte // the object, with its defaults
}

// Limiters returns the valid Limiters, sorted by file and line.
func (r *Result) Limiters() (limiters []Limiter) {
	for _, o := range r.sorted() {
		if o.text("kind") != limiterKind || slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.File == o.file && p.Policy == o.policy() }) {
			continue
		}
		if content, err := json.Marshal(o.content); err == nil {
			limiters = append(limiters, Limiter{Name: o.policy(), File: o.file, Line: o.line(""), JSON: content})
		}
	}
	return limiters
}

// Object is the place of a policy or a Limiter in the files.
type Object struct {
	Kind string
	Name string // "namespace/name" or "_cluster/name"
	File string
	Line int
}

// Objects returns the policies and Limiters, valid and invalid, sorted by file and line.
func (r *Result) Objects() (objects []Object) {
	for _, o := range r.sorted() {
		objects = append(objects, Object{o.text("kind"), o.policy(), o.file, o.line("")})
	}
	return objects
}

// Valid returns the valid policies, with their defaults.
func (r *Result) Valid() compile.Policies { return r.policies }
