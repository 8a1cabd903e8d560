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
// namespace or a number in base 8, and about policies that others replace on purpose.
func (r *Result) Findings() Findings {
	found := append(r.warnings(), r.overridden()...)
	for _, o := range r.sorted() {
		found = append(found, o.numberWarnings(r.Problems)...)
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
	objects := r.places()
	for i := range found {
		o := objects.of(&found[i])
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
	objects, rules := r.places(), map[*object]map[string]bool{}
	for i := range suppressed {
		o := objects.of(&suppressed[i].Problem)
		if rules[o] == nil {
			rules[o] = map[string]bool{}
		}
		rules[o][suppressed[i].Rule] = true
	}
	for _, o := range r.sorted() {
		problems = append(problems, o.suppressionWarnings(rules[o])...)
	}
	return problems
}

// places are the defined objects by file and name, sorted by line: a policy and a Limiter can have the same name.
type places map[[2]string][]*object

func (r *Result) places() places {
	all := places{}
	for _, o := range r.sorted() {
		key := [2]string{o.file, o.policy()}
		all[key] = append(all[key], o)
	}
	return all
}

// of returns the object that a finding is about, nil without one.
func (p places) of(found *Problem) *object {
	for _, o := range slices.Backward(p[[2]string{found.File, found.Policy}]) {
		if o.line("") <= found.Line {
			return o
		}
	}
	return nil
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
	objects, invalid := r.places(), map[*object]bool{}
	for i := range r.Problems {
		invalid[objects.of(&r.Problems[i])] = true
	}
	for _, o := range r.sorted() {
		if o.text("kind") != limiterKind || invalid[o] {
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
