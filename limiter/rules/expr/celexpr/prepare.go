package celexpr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"github.com/weir-dev/weir/limiter/rules/pattern"
)

// prepared is what Compile adds to the syntax tree of an expression.
type prepared struct {
	tree    *ast.AST
	factory ast.ExprFactory
	nextID  int64
	nodes   uint64           // outside of loops
	parts   int              // lists, maps, loops and optional values
	loops   map[int64]uint64 // the cost of one round, by the node of useRange
	appends map[int64]bool   // calls that add to the result of a loop
	err     error            // the first one
}

// prepare adds a call of useRange to each loop, and a call of useKey to each index that is not a literal, because CEL evaluates loops and
// indexes without a function whose cost could be charged. It rejects what makes the type of an expression grow exponentially.
func prepare(parsed *cel.Ast) (*prepared, error) {
	p := &prepared{tree: parsed.NativeRep(), factory: ast.NewExprFactory(), loops: map[int64]uint64{}, appends: map[int64]bool{}}
	p.nextID = ast.MaxID(p.tree)
	p.nodes = p.node(p.tree.Expr())
	ast.PreOrderVisit(p.tree.Expr(), ast.NewExprVisitor(p.countParts))
	if p.parts > maxContainers {
		p.reject(p.tree.Expr(), "the expression has %d lists, maps, loops and optional values, but the maximum is %d", p.parts, maxContainers)
	}
	return p, p.err
}

// maxContainers is the maximum number of lists, maps, loops and optional values in an expression, in each of which the type of a value can have
// another one. The type checker takes a time that grows with the third power of the depth: two seconds for 200 nested lists.
const maxContainers = 40

func (p *prepared) countParts(e ast.Expr) {
	switch e.Kind() {
	case ast.ListKind, ast.MapKind, ast.ComprehensionKind:
		p.parts++
	case ast.CallKind:
		if strings.HasPrefix(e.AsCall().FunctionName(), "optional.") || e.AsCall().IsMemberFunction() && isOptional(e.AsCall().Target()) {
			p.parts++
		}
	}
}

// isOptional reports whether a node is the name before optional.of and similar functions.
func isOptional(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "optional" }

// maxPatterns is the maximum number of regular expressions in an expression. To compile one takes up to a millisecond.
const maxPatterns = 16

// base is the cost of an evaluation without loops and without functions whose cost depends on the request.
func (p *prepared) base() uint64 {
	const evaluationCost = 30
	return evaluationCost + nodeCost*p.nodes
}

func (p *prepared) reject(node ast.Expr, format string, args ...any) {
	if p.err == nil {
		p.err = positioned(p.tree, node, fmt.Sprintf(format, args...))
	}
}

// positioned returns an error with the position of a node.
func positioned(tree *ast.AST, node ast.Expr, message string) error {
	location := tree.SourceInfo().GetStartLocation(node.ID())
	return fmt.Errorf("%d:%d: %s", max(location.Line(), 1), max(location.Column(), 0)+1, message)
}

// node prepares a node and those below it, and returns their number without the rounds of loops.
func (p *prepared) node(e ast.Expr) (nodes uint64) {
	nodes = 1
	if isConstant(e) {
		return nodes
	}
	switch e.Kind() {
	case ast.SelectKind:
		nodes += p.node(e.AsSelect().Operand())
	case ast.CallKind:
		nodes += p.call(e)
	case ast.ListKind:
		if len(e.AsList().OptionalIndices()) > 0 {
			p.reject(e, "the elements of a list must not be optional")
		}
		for _, element := range e.AsList().Elements() {
			nodes += p.node(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			key := entry.AsMapEntry().Key()
			if key.Kind() != ast.LiteralKind || entry.AsMapEntry().IsOptional() {
				p.reject(key, "the keys of a map must be literals and must not be optional")
			}
			nodes += 1 + p.node(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		nodes += p.loop(e)
	}
	return nodes
}

func (p *prepared) call(e ast.Expr) (nodes uint64) {
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		nodes += p.node(call.Target())
	}
	for _, arg := range args {
		nodes += p.node(arg)
	}
	if name := call.FunctionName(); (name == operators.Index || name == operators.OptIndex) && len(args) == 2 && args[1].Kind() != ast.LiteralKind {
		e.SetKindCase(p.factory.NewCall(e.ID(), name, args[0], p.use(useKey, args[1])))
		nodes++
	}
	return nodes
}

func (p *prepared) loop(e ast.Expr) (nodes uint64) {
	const roundCost = 30 // of an iteration
	loop := e.AsComprehension()
	for _, step := range []ast.Expr{loop.LoopStep(), thenOf(loop.LoopStep())} {
		if isAppend(step, loop.AccuVar()) {
			p.appends[step.ID()] = true
		}
	}
	nodes = p.node(loop.IterRange()) + p.node(loop.AccuInit()) + p.node(loop.Result()) + 1
	round := p.node(loop.LoopCondition()) + p.node(loop.LoopStep())
	if loop.IterRange().Kind() == ast.ListKind && loop.IterRange().AsList().Size() == 0 {
		return nodes // of optMap and optFlatMap: it has no rounds
	}
	collection := p.use(useRange, loop.IterRange())
	p.loops[collection.ID()] = roundCost + nodeCost*round
	e.SetKindCase(p.factory.NewComprehension(e.ID(), collection, loop.IterVar(), loop.AccuVar(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(),
		loop.Result()))
	return nodes
}

// use returns a call of an added function with one argument.
func (p *prepared) use(function string, operand ast.Expr) ast.Expr {
	p.nextID++
	if position, ok := p.tree.SourceInfo().GetOffsetRange(operand.ID()); ok {
		p.tree.SourceInfo().SetOffsetRange(p.nextID, position)
	}
	return p.factory.NewCall(p.nextID, function, operand)
}

// isConstant reports whether a node is a literal, or a list or a map of literals, which is created once.
func isConstant(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.ListKind:
		return len(e.AsList().OptionalIndices()) == 0 && !slices.ContainsFunc(e.AsList().Elements(), isVariable)
	case ast.MapKind:
		return !slices.ContainsFunc(e.AsMap().Entries(), func(entry ast.EntryExpr) bool {
			mapEntry := entry.AsMapEntry()
			return mapEntry.IsOptional() || mapEntry.Key().Kind() != ast.LiteralKind || isVariable(mapEntry.Value())
		})
	default:
		return false
	}
}

func isVariable(e ast.Expr) bool { return !isConstant(e) }

// isAppend reports whether a node of a loop appends to its result, as map and filter do. A user cannot write the name of the result.
func isAppend(e ast.Expr, result string) bool {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Add {
		return false
	}
	args := e.AsCall().Args()
	return len(args) == 2 && args[0].Kind() == ast.IdentKind && args[0].AsIdent() == result && args[1].Kind() == ast.ListKind
}

// validateCalls rejects expressions that compile but are not allowed: functions that are not in the table, regular expressions that come
// from the request, because they can have any size, and the construction of messages.
func (p *prepared) validateCalls(checked *ast.AST) (err error) {
	reject := func(e ast.Expr, why string) {
		if err == nil {
			err = positioned(checked, e, why)
		}
	}
	patterns := 0
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.StructKind:
			reject(e, "the expression must not construct values of type "+e.AsStruct().TypeName())
		case ast.CallKind:
			name, args := e.AsCall().FunctionName(), e.AsCall().Args()
			f := functionTable[name]
			switch {
			case f == nil:
				reject(e, "the function "+name+" must not be called: its result can be too large")
			case f.most > 0 && len(args) >= f.most:
				reject(e, "the function "+name+" must not be called with a time zone")
			case name == operators.Add && !p.appends[e.ID()] && checked.GetType(e.ID()).Kind() == types.ListKind:
				reject(e, "lists must not be added")
			case name == overloads.Matches && err == nil:
				if patterns++; patterns > maxPatterns {
					reject(e, fmt.Sprintf("the expression must not have more than %d regular expressions", maxPatterns))
					return
				}
				validateMatches(args[len(args)-1], reject)
			}
		}
	}))
	return err
}

// thenOf returns the second operand of a conditional node, or else the node.
func thenOf(e ast.Expr) ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Conditional {
		return e.AsCall().Args()[1]
	}
	return e
}

func validateMatches(expression ast.Expr, reject func(ast.Expr, string)) {
	if expression.Kind() != ast.LiteralKind {
		reject(expression, "the regular expression of matches must be a string literal")
		return
	}
	if text, ok := expression.AsLiteral().(types.String); ok {
		if bad := pattern.ValidateRegexp(string(text), false); bad != nil {
			reject(expression, bad.Error())
		}
	}
}
