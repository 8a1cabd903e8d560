package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

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
		case *ast.CallExpr: // log.FromContext(ctx).Info(…)
			return isLockOrLog(x)
		}
		return slices.Contains([]string{"log", "logger", "slog"}, last)
	case *ast.Ident:
		return f.Name == "panic"
	}
	return false
}
