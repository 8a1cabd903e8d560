package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// gremlinsRules returns what each rule of gremlins does with an operator. Gremlins reports the place and the rule only. The
// rules that it does not apply by default are enabled by flags with the same names.
func gremlinsRules() map[string]map[string]string {
	return map[string]map[string]string{
		"ARITHMETIC_BASE":       {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
		"CONDITIONALS_BOUNDARY": {">=": ">", ">": ">=", "<=": "<", "<": "<="},
		"CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", ">=": "<", "<": ">=", ">": "<=", "<=": ">"},
		"INCREMENT_DECREMENT":   {"++": "--", "--": "++"},
		"INVERT_ASSIGNMENTS":    {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="},
		"INVERT_BITWISE":        {"&": "|", "|": "&", "^": "&", "&^": "&", "<<": ">>", ">>": "<<"},
		"INVERT_BWASSIGN":       {"&=": "|=", "|=": "&=", "^=": "&=", "&^=": "&=", "<<=": ">>=", ">>=": "<<="},
		"INVERT_LOGICAL":        {"&&": "||", "||": "&&"},
		"INVERT_LOOPCTRL":       {"break": "continue", "continue": "break"},
		"INVERT_NEGATIVES":      {"-": "+"},
		"REMOVE_SELF_ASSIGNMENTS": {
			"+=": "=", "-=": "=", "*=": "=", "/=": "=", "%=": "=", "&=": "=", "|=": "=", "^=": "=", "&^=": "=", "<<=": "=", ">>=": "=",
		},
	}
}

// gremlinsReport is the part of the JSON of gremlins that is read here.
type gremlinsReport struct {
	Files []struct {
		Name      string `json:"file_name"`
		Mutations []struct {
			Rule   string `json:"type"`
			Status string `json:"status"` // RUNNABLE or NOT COVERED
			Line   int    `json:"line"`
			Column int    `json:"column"` // in bytes, from 1
		} `json:"mutations"`
	} `json:"files"`
}

// goMutants returns the mutants of the Go files of packages. Gremlins finds them, and measures which lines the tests
// execute. It does not run them, see README.md. own: only the tests of the packages themselves.
func goMutants(ctx context.Context, root, temporary string, packages []string, own bool) ([]*Mutant, error) {
	var mutants []*Mutant
	for i, folder := range topFolders(packages) {
		output := filepath.Join(temporary, fmt.Sprintf("gremlins-%d.json", i))
		args := []string{"tool", "-modfile=hack/mutate/gremlins/go.mod", "gremlins", "unleash", "--dry-run", "--workers", "1", "--output", output}
		for rule := range gremlinsRules() {
			args = append(args, "--"+strings.ReplaceAll(strings.ToLower(rule), "_", "-"))
		}
		if group := groupOf(folder); group != "" {
			args = append(args, "--coverpkg", "./"+group+"/...")
		}
		command := exec.CommandContext(ctx, "go", append(args, "./"+folder)...)
		command.Dir = root
		overlay := filepath.Join(temporary, fmt.Sprintf("gremlins-%d-overlay.json", i))
		if err := writeOverlay(overlay, otherTests(root, folder, packages, own)); err != nil {
			return nil, err
		}
		command.Env = append(os.Environ(), "TMPDIR="+temporary, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
		if log, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("find the mutants of %s with gremlins: %w\n%s", folder, err, log)
		}
		found, err := readGremlins(root, folder, output)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if group := groupOf(m.Package); slices.Contains(packages, m.Package) && (group == "" || group == folder) {
				mutants = append(mutants, m)
			}
		}
	}
	return mutants, nil
}

// otherTests returns the overlay that removes the tests below folder that do not run on mutants of packages. Otherwise gremlins
// runs all of them.
func otherTests(root, folder string, packages []string, own bool) map[string]string {
	var needed []string
	for _, p := range packages {
		needed = append(needed, testFolders(p, own)...)
	}
	removed := map[string]string{}
	_ = fs.WalkDir(os.DirFS(root), folder, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, "_test.go") && !slices.Contains(needed, path.Dir(name)) {
			removed[filepath.Join(root, name)] = ""
		}
		return nil // what cannot be read stays
	})
	return removed
}

// topFolders returns the folders that contain all packages. Gremlins also reads the folders below. A group is a folder of its own, because its tests
// cover all of its packages.
func topFolders(packages []string) []string {
	var folders []string
	for _, p := range packages {
		if group := groupOf(p); group != "" {
			p = group
		}
		folders = append(folders, p)
	}
	slices.Sort(folders)
	var top []string
	for _, f := range folders {
		if !slices.ContainsFunc(top, func(t string) bool { return t == f || strings.HasPrefix(f, t+"/") && groupOf(f) == "" }) {
			top = append(top, f)
		}
	}
	return top
}

func readGremlins(root, folder, output string) ([]*Mutant, error) {
	data, err := os.ReadFile(output)
	if os.IsNotExist(err) {
		return nil, nil // no mutants
	}
	if err != nil {
		return nil, err
	}
	var report gremlinsReport
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, fmt.Errorf("read %s: %w", output, err)
	}
	var mutants []*Mutant
	for _, file := range report.Files {
		name := path.Join(folder, filepath.ToSlash(file.Name))
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		addresses, joins := addressOffsets(set, syntax), joinOffsets(set, syntax)
		own, err := ownMutants(name, source)
		if err != nil {
			return nil, err
		}
		for _, m := range own {
			m.show(source)
		}
		mutants = append(mutants, own...)
		for _, g := range file.Mutations {
			offset := lineOffset(source, g.Line) + g.Column - 1
			operator, text := longestOperator(string(source[offset:]), gremlinsRules()[g.Rule])
			if operator == "" || slices.Contains(addresses, offset) {
				continue // %= would become %=, and |x does not compile
			}
			if strings.HasPrefix(text, "-") && slices.Contains(joins, offset) {
				continue
			}
			m := &Mutant{
				Package: path.Dir(name), File: name, Rule: g.Rule, offset: offset, length: len(operator), text: text, In: goFunction(set, syntax, g.Line),
			}
			// The coverage of Go has no constants and variables of packages.
			m.uncovered = g.Status == "NOT COVERED" && m.In != ""
			if m.Rule == "INVERT_LOGICAL" {
				m.group = regroup(set, syntax, source, m)
			}
			m.show(source)
			mutants = append(mutants, m)
		}
	}
	slices.SortFunc(mutants, func(a, b *Mutant) int {
		return strings.Compare(fmt.Sprintf("%s %9d %s", a.File, a.offset, a.text), fmt.Sprintf("%s %9d %s", b.File, b.offset, b.text))
	})
	// Gremlins reports a minus twice: as an operator between two numbers and as a sign.
	return slices.CompactFunc(mutants, func(a, b *Mutant) bool {
		return a.File == b.File && a.offset == b.offset && a.text == b.text && a.length == b.length
	}), nil
}

func longestOperator(source string, replacements map[string]string) (operator, text string) {
	for from, to := range replacements {
		if strings.HasPrefix(source, from) && len(from) > len(operator) {
			operator, text = from, to
		}
	}
	return operator, text
}

// lineOffset returns the offset of the first byte of a line, which counts from 1.
func lineOffset(source []byte, line int) int {
	offset := 0
	for range line - 1 {
		offset += 1 + bytes.IndexByte(source[offset:], '\n')
	}
	return offset
}

// addressOffsets returns the offsets of the operator & that takes an address.
func addressOffsets(set *token.FileSet, file *ast.File) []int {
	var offsets []int
	ast.Inspect(file, func(n ast.Node) bool {
		if u, ok := n.(*ast.UnaryExpr); ok && u.Op == token.AND {
			offsets = append(offsets, set.Position(u.OpPos).Offset)
		}
		return true
	})
	return offsets
}

// joinOffsets returns the offsets of the operators + and += that join strings, as far as a literal shows that. A minus in their
// place does not compile, and to find that out takes a build of each.
func joinOffsets(set *token.FileSet, file *ast.File) []int {
	var offsets []int
	var all func(e ast.Expr)
	all = func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.ParenExpr:
			all(e.X)
		case *ast.BinaryExpr:
			offsets = append(offsets, set.Position(e.OpPos).Offset)
			all(e.X)
			all(e.Y)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if isJoin(n) {
				all(n)
			}
		case *ast.AssignStmt:
			if n.Tok == token.ADD_ASSIGN && isJoin(n.Rhs[0]) {
				offsets = append(offsets, set.Position(n.TokPos).Offset)
			}
		}
		return true
	})
	return offsets
}

// isJoin reports whether e is a string literal, or a sum with one.
func isJoin(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.ParenExpr:
		return isJoin(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (isJoin(e.X) || isJoin(e.Y))
	}
	return false
}

// regroup returns the edit that inverts && or || without a change of the grouping: a && b && c becomes (a || b) && c.
func regroup(set *token.FileSet, file *ast.File, source []byte, m *Mutant) *edit {
	var found *edit
	text := func(n ast.Node) string {
		return string(source[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	isLogic := func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		return ok && (b.Op == token.LAND || b.Op == token.LOR)
	}
	var parents []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return false
		}
		if b, ok := n.(*ast.BinaryExpr); ok && set.Position(b.OpPos).Offset == m.offset {
			x, y := text(b.X), text(b.Y)
			if isLogic(b.X) {
				x = "(" + x + ")"
			}
			if isLogic(b.Y) {
				y = "(" + y + ")"
			}
			whole := x + " " + m.text + " " + y
			if isLogic(parents[len(parents)-1]) {
				whole = "(" + whole + ")"
			}
			from := set.Position(b.Pos()).Offset
			found = &edit{from, set.Position(b.End()).Offset - from, whole}
		}
		parents = append(parents, n)
		return true
	})
	return found
}

// goFunction returns the function around a line: Name, or Type.Name; "" outside of functions.
func goFunction(set *token.FileSet, file *ast.File, line int) string {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || line < set.Position(f.Pos()).Line || line > set.Position(f.End()).Line {
			continue
		}
		if f.Recv == nil {
			return f.Name.Name
		}
		return receiver(f.Recv.List[0].Type) + "." + f.Name.Name
	}
	return ""
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
