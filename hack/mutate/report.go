package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// target is the least score of a package.
const target = 0.9

func folderOf(file string) string { return path.Dir(file) }

// row is the result of the Go files or of the Lua scripts of a package.
type row struct {
	name                                                       string
	mutants, killed, timedOut, survived, notCovered, explained int
	equivalent                                                 int
}

// score is the share of killed mutants. Equivalent mutants do not count, other survivors do, whether explained or not.
func (r *row) score() float64 {
	if r.mutants == r.equivalent {
		return 1
	}
	return float64(r.killed) / float64(r.mutants-r.equivalent)
}

// rowName returns the package of a mutant and, for a script, the language.
func rowName(m *Mutant) string {
	if m.isLua() {
		return m.Package + " (Lua)"
	}
	return m.Package
}

// rows sums up the mutants per package and language, in the order of their names.
func rows(mutants []*Mutant, why explained) []*row {
	var all []*row
	for _, m := range mutants {
		if !m.counts() {
			continue
		}
		name := rowName(m)
		i := slices.IndexFunc(all, func(r *row) bool { return r.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, &row{name: name})
		}
		r := all[i]
		r.mutants++
		switch m.Status {
		case Killed:
			r.killed++
		case TimedOut:
			r.killed++
			r.timedOut++
		case Survived:
			r.survived++
		case NotCovered:
			r.notCovered++
		case NotViable:
		}
		if s := why[m]; s != nil {
			r.explained++
			if s.Equivalent {
				r.equivalent++
			}
		}
	}
	slices.SortFunc(all, func(a, b *row) int { return strings.Compare(a.name, b.name) })
	return all
}

// table returns the rows as a Markdown table.
func table(all []*row) string {
	var b strings.Builder
	b.WriteString("| package | mutants | killed | of these timed out | survived | not covered | explained | of these equivalent | score |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %.1f %% |\n",
			r.name, r.mutants, r.killed, r.timedOut, r.survived, r.notCovered, r.explained, r.equivalent, 100*r.score())
	}
	return b.String()
}

// describe returns one line for a surviving mutant.
func describe(m *Mutant) string {
	in := ""
	if m.In != "" {
		in = " in " + m.In
	}
	return fmt.Sprintf("%s:%d%s: %s: `%s` → `%s`", m.File, m.Line, in, m.Status, m.Before, m.After)
}

// markdown is the whole report.
func markdown(all []*row, mutants []*Mutant, why explained, problems []string) string {
	var b strings.Builder
	b.WriteString("# Mutation testing\n\nhack/mutate/README.md explains the columns.\n\n" + table(all))
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			b.WriteString("\n## " + title + "\n\n- " + strings.Join(lines, "\n- ") + "\n")
		}
	}
	var open, closed []string
	for _, m := range mutants {
		if !m.alive() {
			continue
		}
		if s := why[m]; s != nil {
			closed = append(closed, describe(m)+"\n  "+oneLine(s.Reason))
		} else {
			open = append(open, describe(m))
		}
	}
	section("Survivors without an explanation", open)
	section("Wrong explanations", problems)
	section("Explained survivors", closed)
	return b.String()
}
