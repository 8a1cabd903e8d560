package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The environment variables that switch on one mutant of a test program.
const (
	mutantID   = "WEIR_MUTANT"        // the number of a mutant of a Go file
	scriptName = "WEIR_MUTANT_SCRIPT" // the name of a Lua script, and
	scriptFile = "WEIR_MUTANT_FILE"   // the file with the mutant of it
)

// schema is a package with all of its mutants: one build serves all of them, and an environment variable switches one on.
// A mutant that does not compile in this form has no id. It needs a build of its own.
type schema struct {
	root, folder string
	overlay      string // file for go build -overlay
}

// newSchema writes the package with its mutants to temporary, and sets the ids of mutants. build builds a program with an
// overlay, to find the mutants that do not compile.
func newSchema(root, folder, temporary string, mutants []*Mutant, build func(overlay string) ([]byte, error)) (*schema, error) {
	s := &schema{root: root, folder: folder, overlay: filepath.Join(temporary, "schema.json")}
	id := 0
	for _, m := range mutants {
		if !m.isLua() {
			id++
			m.id = id
		}
	}
	for {
		if err := s.write(temporary, mutants); err != nil {
			return nil, err
		}
		output, err := build(s.overlay)
		if err == nil {
			return s, nil
		}
		if !forget(mutants, folder, output) {
			return nil, fmt.Errorf("build the tests of %s: %w\n%s", folder, err, output)
		}
	}
}

// forget removes the ids of the mutants at the lines with compile errors: of the smallest sites. It returns false if no
// line has a mutant.
func forget(mutants []*Mutant, folder string, output []byte) bool {
	found := false
	for _, match := range regexp.MustCompile(`(?m)(?:schema-)?([\w.]+\.go):(\d+)(?::\d+)?: `).FindAllSubmatch(output, -1) {
		line, err := strconv.Atoi(string(match[2]))
		if err != nil {
			continue
		}
		file, smallest := path.Join(folder, string(match[1])), 1<<30
		at := func(m *Mutant) bool { return m.id != 0 && m.File == file && m.firstLine <= line && line <= m.lastLine }
		for _, m := range mutants {
			if at(m) {
				smallest = min(smallest, m.lastLine-m.firstLine)
			}
		}
		for _, m := range mutants {
			if at(m) && m.lastLine-m.firstLine == smallest {
				m.id, found = 0, true
			}
		}
	}
	return found
}

// write writes the changed files and the overlay.
func (s *schema) write(temporary string, mutants []*Mutant) error {
	replace := map[string]string{}
	add := func(name string, text []byte) error {
		changed := filepath.Join(temporary, "schema-"+name)
		replace[filepath.Join(s.root, s.folder, name)] = changed
		return os.WriteFile(changed, text, 0o600) //nolint:gosec // the name of a file of the package, in a temporary folder
	}
	byFile := map[string][]*Mutant{}
	for _, m := range mutants {
		if m.id != 0 {
			byFile[m.File] = append(byFile[m.File], m)
		}
	}
	for file, here := range byFile {
		source, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return err
		}
		text, err := instrument(file, source, here)
		if err != nil {
			return err
		}
		if err := add(filepath.Base(file), text); err != nil {
			return err
		}
	}
	support, err := supportFile(filepath.Join(s.root, s.folder))
	if err != nil {
		return err
	}
	if err := add("zz_mutants.go", support); err != nil {
		return err
	}
	return writeOverlay(s.overlay, replace)
}

// writeOverlay writes the file for go build -overlay.
func writeOverlay(file string, replace map[string]string) error {
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

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

const (
	dropStatement   = "DROP_STATEMENT"
	negateCondition = "NEGATE_CONDITION"
)

// ownMutants returns mutants that gremlins does not have: statements that are dropped, and conditions without an operator
// that are negated.
func ownMutants(name string, source []byte) ([]*Mutant, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var mutants []*Mutant
	add := func(rule string, n ast.Node, text string) {
		from, to := set.Position(n.Pos()).Offset, set.Position(n.End()).Offset
		mutants = append(mutants, &Mutant{
			Rule: rule, File: name, Package: folderOf(name), offset: from, length: to - from, text: text,
			In: goFunction(set, file, set.Position(n.Pos()).Line),
		})
	}
	drop := func(list []ast.Stmt) {
		for _, s := range list {
			if droppableGo(s) {
				add(dropStatement, s, "")
			}
		}
	}
	negate := func(e ast.Expr) {
		if e == nil {
			return
		}
		if _, isBinary := e.(*ast.BinaryExpr); !isBinary {
			text := string(source[set.Position(e.Pos()).Offset:set.Position(e.End()).Offset])
			if negated, ok := strings.CutPrefix(text, "!"); ok {
				add(negateCondition, e, negated)
			} else {
				add(negateCondition, e, "!"+text)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			drop(n.List)
		case *ast.CaseClause:
			drop(n.Body)
		case *ast.CommClause:
			drop(n.Body)
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.ForStmt:
			negate(n.Cond)
		}
		return true
	})
	return mutants, nil
}

// droppableGo reports whether a statement is worth dropping. Only the race detector can notice a lock that is missing. A timer
// or a context that is not released costs memory only. Tests do not check what is logged.
func droppableGo(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok == token.ASSIGN && !isBlank(s.Lhs)
	case *ast.SendStmt:
		return true
	case *ast.DeferStmt:
		return !isLockOrLog(s.Call) && !isRelease(s.Call)
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && !isLockOrLog(call)
	}
	return false
}

func isBlank(list []ast.Expr) bool {
	for _, e := range list {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

func isRelease(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name == "Stop" || f.Sel.Name == "Close" && len(call.Args) == 0
	case *ast.Ident:
		return f.Name == "cancel" || f.Name == "stop"
	}
	return false
}

func isLockOrLog(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, f.Sel.Name) {
			return true
		}
		var last string
		switch x := f.X.(type) {
		case *ast.Ident:
			last = x.Name
		case *ast.SelectorExpr:
			last = x.Sel.Name
		}
		return slices.Contains([]string{"log", "logger", "slog"}, last)
	case *ast.Ident:
		return f.Name == "panic"
	}
	return false
}

// supportFile returns the file of the package in folder with the functions that instrument uses. It also replaces embedded
// scripts. That works if no variable of the package is computed from a script.
func supportFile(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var scripts bytes.Buffer
	name := ""
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range regexp.MustCompile(`(?m)^\s*//go:embed (\w+\.lua)\n\s*(?:var )?(\w+) string$`).FindAllSubmatch(source, -1) {
			fmt.Fprintf(&scripts, "\t\t%q: &%s,\n", match[1], match[2])
		}
		if match := regexp.MustCompile(`(?m)^package (\w+)`).FindSubmatch(source); match != nil {
			name = string(match[1])
		}
	}
	text := strings.NewReplacer("PACKAGE", name, "SCRIPTS", scripts.String(),
		"ENV_ID", mutantID, "ENV_NAME", scriptName, "ENV_FILE", scriptFile).Replace(support)
	return []byte(text), nil
}

const support = `package PACKAGE

import (
	mutantcmp "cmp"
	mutantos "os"
	mutantstrconv "strconv"
)

var mutantID = func() int { id, _ := mutantstrconv.Atoi(mutantos.Getenv("ENV_ID")); return id }()

func mutantOn(id int) bool { return id == mutantID }

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface { mutantInteger | ~float32 | ~float64 }

func mutantSign[T mutantNumber](id int, x T) T {
	if mutantOn(id) {
		return x
	}
	return -x
}

func mutantOrder[T mutantcmp.Ordered](op string, boundary, negation int, x, y T) bool {
	if mutantOn(boundary) {
		op = map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[op]
	}
	result := false
	switch op {
	case "<":
		result = x < y
	case "<=":
		result = x <= y
	case ">":
		result = x > y
	case ">=":
		result = x >= y
	}
	return mutantOn(negation) != result
}

func mutantLogic(op string, id int, x bool, y func() bool) bool {
	if (op == "&&") != mutantOn(id) {
		return x && y()
	}
	return x || y()
}

func mutantArithmetic[T mutantNumber](op string, id int, x, y T) T {
	if mutantOn(id) {
		op = map[string]string{"+": "-", "-": "+", "*": "/", "/": "*"}[op]
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	return x / y
}

func mutantRemainder[T mutantInteger](_ string, id int, x, y T) T {
	if mutantOn(id) {
		return x * y
	}
	return x % y
}

func init() {
	name := mutantos.Getenv("ENV_NAME")
	if name == "" {
		return
	}
	text, err := mutantos.ReadFile(mutantos.Getenv("ENV_FILE"))
	if err != nil {
		panic(err)
	}
	*map[string]*string{
SCRIPTS	}[name] = string(text)
}
`
