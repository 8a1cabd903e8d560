// Package celexpr compiles the expressions of rules with the CEL library. A program imports it for its effect: it registers the compiler in package expr
// and the reader of expressions in package credentials.
package celexpr

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/weir-dev/weir/limiter/rules/credentials"
	"github.com/weir-dev/weir/limiter/rules/expr"
)

func init() { //nolint:gochecknoinits // the import is the choice of the program
	expr.Register(compile)
	credentials.RegisterExpressions(inExpression)
}

// compile compiles an expression that meets the conditions of expr.Validate.
func compile(of expr.Language, text string, result expr.ResultType) (*expr.Expression, error) {
	language := languages[of]
	checked, prepared, err := language.compile(text, result)
	if err != nil {
		return nil, err
	}
	env, err := language.environment()
	if err != nil {
		return nil, err
	}
	bindings, err := language.bindings()
	if err != nil {
		return nil, err
	}
	m := metering{prepared: prepared, bindings: bindings}
	program, err := env.Program(checked, cel.CustomDecoratorV2(m.decorate))
	if err != nil { // for example because of an index that no map can have
		return nil, fmt.Errorf("1:1: %w", err)
	}
	e := &expr.Expression{Program: evaluation{program}, Base: prepared.base()}
	if of == expr.HTTP {
		e.Reads = expr.Reads{Path: readsField(checked.NativeRep(), "path"), Query: readsField(checked.NativeRep(), "query")}
	}
	return e, nil
}

// compile parses and type-checks text, and rejects expressions that are too expensive.
func (l *language) compile(text string, result expr.ResultType) (*cel.Ast, *prepared, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, nil, errors.New("the expression must not be empty")
	case len(text) > expr.MaxExpression:
		return nil, nil, fmt.Errorf("the expression must be at most %d bytes long", expr.MaxExpression)
	}
	env, err := l.environment()
	if err != nil {
		return nil, nil, err
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, nil, l.compileError(issues)
	}
	prepared, err := prepare(parsed)
	if err != nil {
		return nil, nil, err
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, nil, l.compileError(issues)
	}
	if out := checked.OutputType(); !out.IsExactType(types.DynType) && out.String() != string(result) {
		return nil, nil, fmt.Errorf("1:1: the expression evaluates to %s, but must evaluate to %s", cel.FormatCELType(out), result)
	}
	if err := prepared.validateCalls(checked.NativeRep()); err != nil {
		return nil, nil, err
	}
	if cost := l.maxCost(checked, prepared); cost > maxExpressionCost {
		return nil, nil, fmt.Errorf("1:1: the expression takes up to %s steps on a large request, but the maximum is %d; "+
			"avoid nested loops over "+l.sizes.loops+", and avoid searching long strings for long strings", steps(cost), maxExpressionCost)
	}
	return checked, prepared, nil
}

// maxCost returns the maximum cost of an evaluation for requests of the sizes of the language.
func (l *language) maxCost(checked *cel.Ast, p *prepared) uint64 {
	e := estimate{sizes: l.sizes, tree: checked.NativeRep(), loops: p.loops, variables: map[string]extent{}, cost: p.base()}
	e.extent(checked.NativeRep().Expr(), 1)
	return e.cost
}

func steps(cost uint64) string {
	if cost == math.MaxUint64 {
		return "infinitely many"
	}
	return strconv.FormatUint(cost, 10)
}

// readsField reports whether an expression can read a field of the request: it selects the field, or uses the request other than by a field.
func readsField(checked *ast.AST, name string) bool {
	uses, others := 0, 0 // of the request
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case e.Kind() == ast.IdentKind && e.AsIdent() == requestName:
			uses++
		case e.Kind() == ast.SelectKind:
			selection := e.AsSelect()
			if selection.FieldName() != name && selection.Operand().Kind() == ast.IdentKind && selection.Operand().AsIdent() == requestName {
				others++
			}
		}
	}))
	return uses != others
}

// activation is an expr.Activation as the variable of a CEL program.
type activation struct {
	*expr.Activation

	admission admissionRequest // set if request is a write to the Kubernetes API
	meter     meter            // of the current evaluation
}

// activationOf returns the activation that belongs to a, which keeps it.
func activationOf(a *expr.Activation) *activation {
	if own, ok := a.State.(*activation); ok {
		return own
	}
	own := &activation{Activation: a}
	if a.Request.Kubernetes != nil {
		own.admission.set(a.Request.Kubernetes)
	}
	a.State = own
	return own
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch {
	case name == meterName:
		return &a.meter, true
	case name != requestName:
		return nil, false
	case a.Request.Kubernetes != nil:
		return &a.admission, true
	default:
		return a.Request, true
	}
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }

// evaluation is a CEL program as an expr.Program.
type evaluation struct{ program cel.Program }

// Evaluate implements expr.Program. The library returns panics as errors.
func (e evaluation) Evaluate(on *expr.Activation, allowed uint64) (value any, left uint64, err error) {
	a := activationOf(on)
	a.meter.left = allowed
	result, _, err := e.program.Eval(a)
	if err != nil {
		return nil, a.meter.left, expr.EvaluationError{Err: err, Absent: absent(err)}
	}
	return result.Value(), a.meter.left, nil
}

// absent reports whether a CEL error means that a key or an element does not exist. CEL has no error types: the text is the only
// criterion.
func absent(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "no such key") || strings.HasPrefix(text, "index out of bounds") ||
		strings.HasPrefix(text, "index '")
}
