// Package importer converts the configuration of other rate limiters to policies.
//
// Each importer is a package below this one. It reads files with [Read] and returns a [Result]: policies, and a [Finding] for each part of
// the configuration that is not imported, or that becomes a policy with a difference. This package writes and validates the policies.
package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/weir-dev/weir/internal/terminal"
)

// Kind is the effect of a Finding.
type Kind string

const (
	// Invalid is an error in the source, which its own program would reject as well. Nothing is imported.
	Invalid Kind = "error"
	// NotImported is a part of the source that no policy expresses.
	NotImported Kind = "not imported"
	// Difference is a part of the source whose policy decides some requests in another way.
	Difference Kind = "difference"
	// Note is a part of the source that does not need a policy, or whose policy differs in something else than decisions.
	Note Kind = "note"
)

// Place is a line of a file. The first line is 1.
type Place struct {
	File string
	Line int
}

// Finding describes one line of the source.
type Finding struct {
	Place

	Kind    Kind
	Message string // what, why, and what to do
}

// String returns "config.yaml:12: not imported: message", in one line.
func (f Finding) String() string {
	return oneLine(fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Kind, f.Message))
}

// oneLine replaces all characters that a terminal or a YAML parser does not treat as a part of the line: YAML also ends a comment at a
// carriage return, and in version 1.1 at U+0085, U+2028 and U+2029.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// Result is what an importer made of the source.
type Result struct {
	Policies []Policy
	// Findings are at most 1000 of each kind and file. Finish adds how many are left out.
	Findings []Finding

	count map[findings]int // with those that are left out
}

// findings are all of one kind in one file.
type findings struct {
	file string
	kind Kind
}

const (
	maxFindings = 1000 // of one kind in one file
	maxText     = 1024 // bytes of a text in a finding
)

// Add appends a Finding. It shortens long texts.
func (r *Result) Add(place Place, kind Kind, format string, a ...any) {
	if r.count == nil {
		r.count = map[findings]int{}
	}
	group := findings{place.File, kind}
	if r.count[group]++; r.count[group] > maxFindings {
		return
	}
	for i := range a {
		if text, ok := a[i].(string); ok {
			a[i] = terminal.Shorten(text, maxText)
		}
	}
	r.Findings = append(r.Findings, Finding{place, kind, fmt.Sprintf(format, a...)})
}

// Count returns the number of findings of a kind, with those that are left out.
func (r *Result) Count(kind Kind) (n int) {
	for group, count := range r.count {
		if group.kind == kind {
			n += count
		}
	}
	return n
}

// addLeftOut adds a Finding for the ones of each kind and file that were left out.
func (r *Result) addLeftOut() {
	last := map[findings]Place{}
	for _, f := range r.Findings {
		last[findings{f.File, f.Kind}] = f.Place
	}
	for _, group := range slices.SortedFunc(maps.Keys(last), func(a, b findings) int { return cmp.Compare(a.kind, b.kind) }) {
		if more := r.count[group] - maxFindings; more > 0 {
			r.Findings = append(r.Findings, Finding{last[group], group.kind, fmt.Sprintf("and %d more of this kind in the file", more)})
		}
	}
}

// sort sorts the findings by place, and keeps the order of those of one line.
func (r *Result) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}
