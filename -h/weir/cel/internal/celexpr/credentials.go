package celexpr

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/credentials"
	"github.com/weir-dev/weir/go/internal/limiter/rules/expr"
)

// inExpression reports whether an expression reads credentials, or something that it chooses with the content of the request, such as
// request.headers[request.query["h"][0]]. It lists what is harmless: a function or a variable that it does not know makes no difference.
// Whether the result contains what was read does not matter either.
func inExpression(c credentials.Names, text string, match *rules.Match) bool {
	language := languages[expr.HTTP]
	if match.Kubernetes != nil {
		language = languages[expr.Admission]
	}
	env, err := language.environment()
	if err != nil {
		return true
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return true
	}
	r := credentialReader{Names: c, match: match}
	r.read(parsed.NativeRep().Expr())
	return r.found || r.prints && (r.claims || match.Kubernetes != nil)
}

// credentialReader collects what an expression reads.
type credentialReader struct {
	credentials.Names

	match  *rules.Match
	found  bool // credentials, or a place that is not known
	claims bool
	prints bool // a function is called that prints whole objects
}

// read reads an expression and its parts.
func (r *credentialReader) read(e ast.Expr) {
	if r.found {
		return
	}
	if steps, ok := stepsFrom(e); ok {
		r.readRequest(steps)
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		r.found = r.found || r.Name(e.AsSelect().FieldName())
		r.read(e.AsSelect().Operand())
	case ast.CallKind:
		r.readCall(e.AsCall())
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			r.read(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.read(entry.AsMapEntry().Key())
			r.read(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		for _, part := range []ast.Expr{loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()} {
			r.read(part)
		}
	case ast.IdentKind, ast.LiteralKind:
	default: // a struct, which the compiler rejects
		r.found = true
	}
}

func (r *credentialReader) readCall(call ast.CallExpr) {
	switch call.FunctionName() {
	case operators.In, operators.OldIn:
		// Only the names in the map are read.
		if steps, ok := stepsFrom(call.Args()[1]); ok && len(steps) == 1 && isMap(steps[0].name) {
			r.read(call.Args()[0])
			return
		}
	case "format", "encode":
		r.prints = true
	}
	if name, _, ok := stepOf(call); ok && r.Name(name.name) {
		r.found = true
	}
	if call.IsMemberFunction() {
		r.read(call.Target())
	}
	for _, arg := range call.Args() {
		r.read(arg)
	}
}

// step is one field, key or index behind the variable request.
type step struct {
	name    string   // of a field, or a key
	index   int64    // the index in a list
	isName  bool     // name is set
	isIndex bool     // at is set
	other   ast.Expr // the key or index is not a literal
	exists  bool     // the last step: only whether it exists is read
}

// stepsFrom returns the steps behind the variable request that an expression reads, if it begins with it.
func stepsFrom(e ast.Expr) (steps []step, ok bool) {
	for {
		switch e.Kind() {
		case ast.IdentKind:
			slices.Reverse(steps)
			return steps, strings.TrimPrefix(e.AsIdent(), ".") == requestName
		case ast.SelectKind:
			s := e.AsSelect()
			steps = append(steps, step{name: s.FieldName(), isName: true, exists: s.IsTestOnly()})
			e = s.Operand()
		case ast.CallKind:
			s, operand, ok := stepOf(e.AsCall())
			if !ok {
				return nil, false
			}
			steps = append(steps, s)
			e = operand
		default:
			return nil, false
		}
	}
}

// stepOf returns the step of a call that reads a field, a key or an index, and what it reads from.
func stepOf(call ast.CallExpr) (s step, operand ast.Expr, ok bool) {
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
	default:
		return step{}, nil, false
	}
	args := call.Args()
	s = step{other: args[1]}
	if args[1].Kind() == ast.LiteralKind {
		switch literal := args[1].AsLiteral().(type) {
		case types.String:
			s = step{name: string(literal), isName: true}
		case types.Int:
			s = step{index: int64(literal), isIndex: true}
		}
	}
	return s, args[0], true
}

func isMap(field string) bool { return field == "headers" || field == "query" || field == "claims" }

// readRequest reads a part of the request.
func (r *credentialReader) readRequest(steps []step) {
	for _, s := range steps {
		if s.other != nil {
			r.read(s.other)
		}
	}
	switch {
	case len(steps) == 0 || !steps[0].isName:
		r.found = true
	case steps[len(steps)-1].exists:
	case r.match.Kubernetes != nil:
		r.found = r.found || r.inWrite(steps)
	default:
		r.found = r.found || r.inHTTP(steps)
	}
}

func (r *credentialReader) inHTTP(steps []step) bool {
	switch field := steps[0].name; field {
	case "domain", "method", "host", "path", "clientIP":
		return false
	case "headers", "query", "claims":
		r.claims = r.claims || field == "claims"
		return len(steps) == 1 || !steps[1].isName || slices.ContainsFunc(steps[1:], r.isCredential)
	case "descriptors":
		return r.inDescriptors(steps)
	default:
		return true
	}
}

// inDescriptors knows the keys of the first descriptor if the rule matches descriptors, because this one comes first in expressions then.
func (r *credentialReader) inDescriptors(steps []step) bool {
	if len(steps) < 3 || !steps[1].isIndex || steps[1].index != 0 || !steps[2].isIndex {
		return true
	}
	entries, index := r.match.Descriptors, steps[2].index
	return index < 0 || index >= int64(len(entries)) || r.Entry(entries[index].Key)
}

func (r *credentialReader) inWrite(steps []step) bool {
	switch steps[0].name {
	case "object", "oldObject", "options":
		return len(steps) == 1 || slices.ContainsFunc(steps[1:], func(s step) bool {
			return r.isCredential(s) || s.name == "data" || s.name == "stringData" // of a Secret
		})
	default:
		return slices.ContainsFunc(steps[1:], r.isCredential)
	}
}

// isCredential reports whether a step reads credentials or is not known. The elements of a list are as public as the list.
func (r *credentialReader) isCredential(s step) bool {
	return s.other != nil || s.isName && r.Name(s.name)
}
