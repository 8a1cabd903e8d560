package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// site is a part of a file that can be one of several mutants.
type site struct {
	from, to int
	// text returns the new text. keep returns the text of a part of the site, with the mutants inside.
	text func(keep func(ast.Node) string) string
}

// instrument returns a file that is every one of mutants, as the environment demands. It has the lines of the source.
// A mutant whose form is unknown loses its id.
func instrument(name string, source []byte, mutants []*Mutant) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	w := &weaver{source: source, offset: offset, line: func(p token.Pos) int { return set.Position(p).Line }, byOffset: map[int][]*Mutant{}}
	for _, m := range mutants {
		w.byOffset[m.offset] = append(w.byOffset[m.offset], m)
	}
	w.walk(file)
	for _, left := range w.byOffset {
		for _, m := range left {
			m.id = 0
		}
	}
	slices.SortStableFunc(w.sites, func(a, b site) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	return []byte(w.render(0, len(source), 0)), nil
}

// weaver collects the sites of a file.
type weaver struct {
	source   []byte
	offset   func(token.Pos) int
	line     func(token.Pos) int
	byOffset map[int][]*Mutant // by the offset of the operator; those that have no site yet
	sites    []site
}

// take returns the mutants of a node with the operator at p by rule, and removes them from byOffset.
func (w *weaver) take(n ast.Node, p token.Pos, rules ...string) map[string]*Mutant {
	taken := map[string]*Mutant{}
	at := w.offset(p)
	w.byOffset[at] = slices.DeleteFunc(w.byOffset[at], func(m *Mutant) bool {
		if !slices.Contains(rules, m.Rule) {
			return false
		}
		taken[m.Rule] = m
		m.firstLine, m.lastLine = w.line(n.Pos()), w.line(n.End())
		return true
	})
	return taken
}

func idOf(m *Mutant) int {
	if m == nil {
		return -1
	}
	return m.id
}

func (w *weaver) add(n ast.Node, text func(keep func(ast.Node) string) string) {
	w.sites = append(w.sites, site{w.offset(n.Pos()), w.offset(n.End()), text})
}

// render returns the source from one offset to another, with the sites of that part. level is the index of the first site.
func (w *weaver) render(from, to, level int) string {
	var b strings.Builder
	for i := level; i < len(w.sites); i++ {
		s := w.sites[i]
		if s.from < from || s.to > to {
			continue
		}
		b.Write(w.source[from:s.from])
		b.WriteString(s.text(func(n ast.Node) string { return w.render(w.offset(n.Pos()), w.offset(n.End()), i+1) }))
		from = s.to
	}
	b.Write(w.source[from:to])
	return b.String()
}

// walk adds the sites of a node. It leaves out what must be constant.
func (w *weaver) walk(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.ArrayType:
			return false
		case *ast.BinaryExpr:
			w.binary(n)
		case *ast.UnaryExpr:
			if t := w.take(n, n.OpPos, "INVERT_NEGATIVES", "ARITHMETIC_BASE"); n.Op == token.SUB && len(t) > 0 {
				id := max(idOf(t["INVERT_NEGATIVES"]), idOf(t["ARITHMETIC_BASE"]))
				w.add(n, func(keep func(ast.Node) string) string { return fmt.Sprintf("mutantSign(%d, %s)", id, keep(n.X)) })
			}
		case *ast.BlockStmt:
			w.statements(n.List)
		case *ast.CaseClause:
			w.statements(n.Body)
		case *ast.CommClause:
			w.statements(n.Body)
		case *ast.IfStmt:
			w.condition(n.Cond)
		case *ast.ForStmt:
			w.condition(n.Cond)
		}
		return true
	})
}

func (w *weaver) binary(n *ast.BinaryExpr) {
	op := n.Op.String()
	// The lines remain those of the source, because compile errors are found by line.
	lines := strings.Repeat("\n", w.line(n.Y.Pos())-w.line(n.X.End()))
	switch n.Op {
	case token.EQL, token.NEQ:
		if t := w.take(n, n.OpPos, "CONDITIONALS_NEGATION"); len(t) > 0 {
			w.add(n, func(keep func(ast.Node) string) string {
				return fmt.Sprintf("(mutantOn(%d) != (%s %s %s%s))", idOf(t["CONDITIONALS_NEGATION"]), keep(n.X), op, lines, keep(n.Y))
			})
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if t := w.take(n, n.OpPos, "CONDITIONALS_NEGATION", "CONDITIONALS_BOUNDARY"); len(t) > 0 {
			w.add(n, func(keep func(ast.Node) string) string {
				return fmt.Sprintf("mutantOrder(%q, %d, %d, %s, %s%s)",
					op, idOf(t["CONDITIONALS_BOUNDARY"]), idOf(t["CONDITIONALS_NEGATION"]), keep(n.X), lines, keep(n.Y))
			})
		}
	case token.LAND, token.LOR:
		if t := w.take(n, n.OpPos, "INVERT_LOGICAL"); len(t) > 0 {
			w.add(n, func(keep func(ast.Node) string) string {
				return fmt.Sprintf("mutantLogic(%q, %d, %s, %sfunc() bool { return %s })", op, idOf(t["INVERT_LOGICAL"]), keep(n.X), lines, keep(n.Y))
			})
		}
	case token.ADD, token.SUB, token.MUL, token.QUO, token.REM:
		if t := w.take(n, n.OpPos, "INVERT_NEGATIVES", "ARITHMETIC_BASE"); len(t) > 0 {
			id := max(idOf(t["INVERT_NEGATIVES"]), idOf(t["ARITHMETIC_BASE"]))
			function := "mutantArithmetic"
			if n.Op == token.REM {
				function = "mutantRemainder"
			}
			w.add(n, func(keep func(ast.Node) string) string {
				return fmt.Sprintf("%s(%q, %d, %s, %s%s)", function, op, id, keep(n.X), lines, keep(n.Y))
			})
		}
	default:
	}
}

func (w *weaver) condition(e ast.Expr) {
	if e == nil {
		return
	}
	if t := w.take(e, e.Pos(), negateCondition); len(t) > 0 {
		from, to := w.offset(e.Pos()), w.offset(e.End())
		w.sites = append(w.sites, site{from, to, func(keep func(ast.Node) string) string {
			return fmt.Sprintf("(mutantOn(%d) != (%s))", idOf(t[negateCondition]), keep(e))
		}})
	}
}

// statements adds the sites of statements in a list. Statements in the head of an if or a for cannot be replaced by an if.
func (w *weaver) statements(list []ast.Stmt) {
	for _, statement := range list {
		if t := w.take(statement, statement.Pos(), dropStatement); len(t) > 0 {
			s := statement
			w.add(s, func(keep func(ast.Node) string) string {
				return fmt.Sprintf("if !mutantOn(%d) { %s }", idOf(t[dropStatement]), keep(s))
			})
		}
		var operator token.Pos
		switch n := statement.(type) {
		case *ast.AssignStmt:
			operator = n.TokPos
		case *ast.IncDecStmt:
			operator = n.TokPos
		case *ast.BranchStmt:
			operator = n.TokPos
		default:
			continue
		}
		taken := w.take(statement, operator, "INVERT_ASSIGNMENTS", "REMOVE_SELF_ASSIGNMENTS", "INVERT_BWASSIGN", "INCREMENT_DECREMENT", "INVERT_LOOPCTRL")
		if len(taken) == 0 {
			continue
		}
		from, to, at := w.offset(statement.Pos()), w.offset(statement.End()), w.offset(operator)
		s := statement
		w.add(s, func(keep func(ast.Node) string) string {
			var b strings.Builder
			for _, m := range taken {
				fmt.Fprintf(&b, "if mutantOn(%d) { %s } else ", m.id,
					oneLine(string(w.source[from:at])+m.text+string(w.source[at+m.length:to])))
			}
			return b.String() + "{ " + keep(s) + " }"
		})
	}
}
