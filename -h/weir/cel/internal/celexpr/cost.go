package celexpr

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"github.com/weir-dev/weir/go/internal/limiter/rules/pattern"
)

const (
	// maxExpressionCost bounds the cost of one evaluation, in units. See the table of functions for the unit: the bound is half a
	// millisecond and half a mebibyte, half of what the documentation promises. An expression is rejected if it can cost more for a
	// request of the sizes below. For a larger request it is charged before each step, and ends at this cost.
	maxExpressionCost = 50_000
	// maxMatchSteps bounds the steps of one regular expression in an expression. A step is at most a unit.
	maxMatchSteps = 10_000
)

// requestSizes has the sizes of the largest request for which expressions are decided in any case.
type requestSizes struct {
	fields   map[string]map[string]extent // of the types of the language, by name
	anything extent                       // of values of unknown type, such as claims and objects
	loops    string                       // the collections to avoid nested loops over, for messages
}

// listOf is a list of items with the total weight of the largest one.
func listOf(count uint64, item extent, weight uint64) extent {
	return extent{count: count, weight: weight, item: &item}
}

func mapOf(count uint64, key, item extent, weight uint64) extent {
	return extent{count: count, weight: weight, key: &key, item: &item}
}

// anyOf is a value of unknown type. Its elements can be of any type as well.
func anyOf(size, count, weight uint64) extent {
	e := &extent{bytes: size, count: count, weight: weight}
	e.item, e.key = e, e
	return *e
}

func httpSizes() requestSizes {
	const text1K = 1024
	entry := extent{weight: 2 * text1K / bytesPerUnit}
	claims := anyOf(text1K, 32, 1024)
	return requestSizes{
		loops: "headers, query, claims and descriptors", anything: claims,
		fields: map[string]map[string]extent{
			requestName: {
				"domain": text(253), "method": text(16), "host": text(253), "path": text(512), "clientIP": text(45),
				"headers":     mapOf(32, text(64), text(text1K), 2048), // 14 KiB and 32 elements
				"query":       mapOf(16, text(64), listOf(16, text(text1K), 1024), 2048),
				"claims":      claims,
				"descriptors": listOf(8, listOf(8, entry, 3072), 3072),
			},
			entryName: {"key": text(128), "value": text(text1K)},
		},
	}
}

// admissionSizes assumes that the collections in an object are small, such as lists of containers or labels, because their types are
// unknown.
func admissionSizes() requestSizes {
	const name = 253
	object := anyOf(name, 16, 512)
	return requestSizes{
		loops: "lists and maps of objects", anything: object,
		fields: map[string]map[string]extent{
			requestName: {
				"operation": text(16), "subResource": text(name), "namespace": text(63), "name": text(name),
				"object": object, "oldObject": object, "options": object,
			},
			resourceName: {"group": text(name), "version": text(name), "resource": text(name)},
			kindName:     {"kind": text(name)},
			userInfoName: {"username": text(name), "groups": listOf(64, text(name), 2048), "extra": mapOf(64, text(name), listOf(64, text(name), 2048), 2048)},
		},
	}
}

// estimate determines the maximum cost of an expression for requests of the sizes. It uses the same costs as the evaluation, with bounds
// instead of sizes. The estimator of CEL is not used, because it has no sizes for values inside of lists and for the results of functions.
type estimate struct {
	sizes requestSizes
	tree  *ast.AST
	loops map[int64]uint64 // by the node of useRange
	// variables are those of the loops around the node.
	variables map[string]extent
	cost      uint64
}

// add adds a cost that is repeated in the loops around the node.
func (e *estimate) add(cost, repeated uint64) { e.cost = plus(e.cost, times(cost, repeated)) }

// extent returns the bounds of the value of a node, and adds the cost of its evaluation.
func (e *estimate) extent(node ast.Expr, repeated uint64) extent {
	switch node.Kind() {
	case ast.LiteralKind:
		return literalExtent(node.AsLiteral())
	case ast.IdentKind:
		if variable, found := e.variables[node.AsIdent()]; found {
			return variable
		}
		return scalar // the request, or the name of a type
	case ast.SelectKind:
		return e.selected(node, repeated)
	case ast.CallKind:
		return e.call(node, repeated)
	case ast.ListKind:
		list := extent{weight: 1}
		if isConstant(node) {
			repeated = 0
		}
		for _, element := range node.AsList().Elements() {
			list = list.withItem(e.extent(element, repeated))
		}
		e.add(list.weight, repeated)
		return list
	case ast.MapKind:
		entries := extent{weight: 1}
		if isConstant(node) {
			repeated = 0
		}
		for _, entry := range node.AsMap().Entries() {
			key := e.extent(entry.AsMapEntry().Key(), repeated)
			entries.key = unionOf(entries.key, &key)
			entries = entries.withItem(e.extent(entry.AsMapEntry().Value(), repeated))
		}
		e.add(entries.weight, repeated)
		return entries
	case ast.ComprehensionKind:
		return e.loop(node.AsComprehension(), repeated)
	default:
		return e.sizes.anything
	}
}

// withItem returns the bounds of a literal with another element.
func (e extent) withItem(item extent) extent {
	e.count++
	e.weight = plus(e.weight, plus(elementCost, item.weight))
	e.item = unionOf(e.item, &item)
	return e
}

func (e *estimate) selected(node ast.Expr, repeated uint64) extent {
	s := node.AsSelect()
	operand := e.extent(s.Operand(), repeated)
	switch {
	case s.IsTestOnly():
		return scalar
	case operand.item != nil:
		return *operand.item
	}
	if fields, ok := e.sizes.fields[e.tree.GetType(s.Operand().ID()).TypeName()]; ok {
		if field, ok := fields[s.FieldName()]; ok {
			return field
		}
		return scalar
	}
	return e.sizes.anything
}

func (e *estimate) call(node ast.Expr, repeated uint64) extent {
	call := node.AsCall()
	var args []extent
	if call.IsMemberFunction() {
		args = append(args, e.extent(call.Target(), repeated))
	}
	for _, arg := range call.Args() {
		args = append(args, e.extent(arg, repeated))
	}
	if call.FunctionName() == overloads.Matches {
		e.add(e.steps(call.Args()[len(call.Args())-1], args[0].bytes), repeated)
	}
	if call.FunctionName() == useRange {
		e.add(times(args[0].count, e.loops[node.ID()]), repeated)
	}
	f := functionTable[call.FunctionName()]
	if f.cost != nil {
		e.add(f.cost(args), repeated)
	}
	switch {
	case f.result == nil:
		return scalar
	case call.FunctionName() == operators.OptSelect, call.FunctionName() == operators.Index, call.FunctionName() == operators.OptIndex:
		if args[0].item == nil { // a field of an object, or something in a value of unknown type
			return e.sizes.anything
		}
	}
	return f.result(args)
}

// steps returns the steps that a regular expression usually takes. What it takes is counted when it is evaluated: it depends on the text.
func (e *estimate) steps(expression ast.Expr, size uint64) uint64 {
	const usualPart = 4 // of the largest number of steps
	text, _ := expression.AsLiteral().Value().(string)
	p, err := pattern.CompileSearch(text)
	if err != nil {
		return maxMatchSteps
	}
	return min(maxMatchSteps, times(uint64(len(p.Program.Inst)), size+1)/usualPart)
}

// loop returns the bounds of the result of a macro. The cost of the nodes of a loop is that of useRange.
func (e *estimate) loop(loop ast.ComprehensionExpr, repeated uint64) extent {
	collection := e.extent(loop.IterRange(), repeated)
	accumulated := e.extent(loop.AccuInit(), repeated)
	restore := e.set(loop.AccuVar(), accumulated)
	element := scalar
	switch {
	case collection.key != nil && collection.item == collection.key, collection.key == nil && collection.item != nil:
		element = *collection.item
	case collection.key != nil && e.tree.GetType(loop.IterRange().ID()).Kind() == types.ListKind:
		element = *collection.item
	case collection.key != nil && e.tree.GetType(loop.IterRange().ID()).Kind() == types.MapKind:
		element = *collection.key
	case collection.key != nil: // a list or a map
		element = collection.key.union(*collection.item)
	}
	restoreElement := e.set(loop.IterVar(), element)
	inside := times(repeated, collection.count)
	e.extent(loop.LoopCondition(), inside)
	step := e.step(loop, inside)
	restoreElement()
	if loop.AccuInit().Kind() == ast.ListKind { // map and filter: each step appends at most one element
		accumulated = extent{count: collection.count, item: step.item}
		if step.item != nil {
			accumulated.weight = times(collection.count, plus(elementCost, step.item.weight))
		}
		e.variables[loop.AccuVar()] = accumulated
	}
	result := e.extent(loop.Result(), repeated)
	restore()
	return result
}

// step returns the bounds of a list that one step of a loop appends. Appending costs no more than the node of the call.
func (e *estimate) step(loop ast.ComprehensionExpr, repeated uint64) extent {
	step := loop.LoopStep()
	if isAppend(step, loop.AccuVar()) {
		return e.extent(step.AsCall().Args()[1], repeated)
	}
	if step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Conditional {
		e.extent(step.AsCall().Args()[0], repeated)
		if then := step.AsCall().Args()[1]; isAppend(then, loop.AccuVar()) {
			return e.extent(then.AsCall().Args()[1], repeated)
		}
	}
	return e.extent(step, repeated)
}

// set sets a variable and returns a function that restores the previous one.
func (e *estimate) set(name string, value extent) (restore func()) {
	previous, had := e.variables[name]
	e.variables[name] = value
	return func() {
		if had {
			e.variables[name] = previous
		} else {
			delete(e.variables, name)
		}
	}
}

func literalExtent(value any) extent {
	switch v := value.(type) {
	case types.String:
		return text(uint64(len(v)))
	case types.Bytes:
		return text(uint64(len(v)))
	default:
		return scalar
	}
}
