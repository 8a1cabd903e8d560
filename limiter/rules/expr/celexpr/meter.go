package celexpr

import (
	"encoding/json"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/pattern"
)

// meterName is the name under which an evaluation finds its meter. A user cannot write it.
const meterName = "@meter"

// meter has the units that an evaluation can still cost.
type meter struct{ left uint64 }

// errOverBudget ends an evaluation. The library catches it.
var errOverBudget = interpreter.EvalCancelledError{
	Cause: interpreter.CostLimitExceeded, Message: "the request is too large to evaluate the expression",
}

// charge charges units before the work that they are for. It ends the evaluation if too few are left.
func (m *meter) charge(units uint64) {
	if units > m.left {
		m.left = 0
		panic(errOverBudget)
	}
	m.left -= units
}

func meterOf(frame *interpreter.ExecutionFrame) *meter {
	value, _ := frame.ResolveName(meterName)
	m, _ := value.(*meter)
	return m
}

// metering replaces the parts of a program whose work depends on the request by ones that charge it. It is a cel.CustomDecoratorV2.
type metering struct {
	*prepared

	bindings map[string]*functions.Overload
}

// bindingsOf returns the implementations of the functions of env, by overload and by function.
func bindingsOf(env *cel.Env) (map[string]*functions.Overload, error) {
	byOperator := map[string]*functions.Overload{}
	for _, declared := range env.Functions() {
		bindings, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			byOperator[b.Operator] = b
		}
	}
	return byOperator, nil
}

func (m *metering) decorate(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch n := node.(type) {
	case interpreter.InterpretableCall:
		return m.call(n)
	case interpreter.InterpretableConstructor:
		return construct(n), nil
	default:
		return node, nil
	}
}

func (m *metering) call(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	if call.Function() == overloads.Matches {
		return newMatching(call)
	}
	f := functionTable[call.Function()]
	perElement, isLoop := m.loops[call.ID()]
	if f.cost == nil && !isLoop || m.appends[call.ID()] {
		return call, nil
	}
	binding, found := m.bindings[call.OverloadID()]
	if !found {
		binding = m.bindings[call.Function()]
	}
	return &metered{InterpretableCall: call, args: call.Args(), function: f, binding: binding, perElement: perElement}, nil
}

// metered is a call whose cost is charged before the function is called.
type metered struct {
	interpreter.InterpretableCall

	args       []interpreter.InterpretableV2
	function   *function
	binding    *functions.Overload
	perElement uint64 // of a loop over the argument
}

// Exec implements interpreter.InterpretableV2. All functions are strict: they are not called with an error.
func (c *metered) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	var few [4]ref.Val
	values := few[:0]
	for _, arg := range c.args {
		value := arg.Exec(frame)
		if types.IsUnknownOrError(value) {
			return value
		}
		values = append(values, value)
	}
	m := meterOf(frame)
	var sizes [4]extent
	measureAll(sizes[:0], values, c.function.whole, m.left)
	m.charge(c.cost(sizes[:len(values)]))
	if c.function.short && totalBytes(sizes[:len(values)]) > maxParsed {
		if c.Function() == "isIP" || c.Function() == "isCIDR" {
			return types.False
		}
		return types.NewErrWithNodeID(c.ID(), "a text of more than %d bytes is not parsed", maxParsed)
	}
	return types.LabelErrNode(c.ID(), c.invoke(values))
}

func (c *metered) cost(sizes []extent) (units uint64) {
	if c.function.cost != nil {
		units = c.function.cost(sizes)
	}
	if c.perElement > 0 {
		units = plus(units, times(c.perElement, sizes[0].count))
	}
	return units
}

// invoke calls the function, as the library does.
func (c *metered) invoke(values []ref.Val) ref.Val {
	switch c.Function() {
	case operators.Equals:
		return types.Equal(values[0], values[1])
	case operators.NotEquals:
		return types.Bool(types.Equal(values[0], values[1]) != types.True)
	case operators.Add:
		if _, isList := values[0].(traits.Lister); isList {
			return types.NewErr("lists must not be added")
		}
	}
	if b := c.binding; b != nil && (b.OperandTrait == 0 || values[0].Type().HasTrait(b.OperandTrait)) {
		switch {
		case len(values) == 1 && b.Unary != nil:
			return b.Unary(values[0])
		case len(values) == 2 && b.Binary != nil:
			return b.Binary(values[0], values[1])
		case b.Function != nil:
			return b.Function(values...)
		}
	}
	if receiver, ok := values[0].(traits.Receiver); ok {
		return receiver.Receive(c.Function(), c.OverloadID(), values[1:])
	}
	return types.NewErr("no such overload: %s", c.Function())
}

// Eval implements interpreter.Interpretable.
func (c *metered) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// construction is a list or a map of the expression with values that depend on the request. Everything in it is charged, so that an
// expression cannot make a value that grows exponentially by using another one several times.
type construction struct {
	interpreter.InterpretableConstructor
}

// construct returns the value of a list or a map of constants.
func construct(node interpreter.InterpretableConstructor) interpreter.InterpretableV2 {
	for _, value := range node.InitVals() {
		if _, constant := value.(interpreter.InterpretableConst); !constant {
			return &construction{node}
		}
	}
	return interpreter.NewConstValue(node.ID(), node.Eval(interpreter.EmptyActivation()))
}

// Exec implements interpreter.InterpretableV2.
func (c *construction) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := c.InterpretableConstructor.Exec(frame)
	if !types.IsUnknownOrError(value) {
		m := meterOf(frame)
		m.charge(weigh(value, m.left))
	}
	return value
}

// Eval implements interpreter.Interpretable.
func (c *construction) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// matching is a call of matches. Its cost is the steps of the regular expression.
type matching struct {
	interpreter.InterpretableCall

	text    interpreter.InterpretableV2
	pattern *pattern.Regexp
}

func newMatching(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	args := call.Args()
	literal, _ := args[1].(interpreter.InterpretableConst) // see validateMatches
	expression, _ := literal.Value().Value().(string)
	p, err := pattern.CompileSearch(expression)
	if err != nil {
		return nil, err
	}
	return &matching{InterpretableCall: call, text: args[0], pattern: p}, nil
}

// Exec implements interpreter.InterpretableV2.
func (c *matching) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := c.text.Exec(frame)
	if types.IsUnknownOrError(value) {
		return value
	}
	text, ok := value.(types.String)
	if !ok {
		return types.NewErrWithNodeID(c.ID(), "no such overload: %s", c.Function())
	}
	m := meterOf(frame)
	allowed := int(min(m.left, maxMatchSteps))
	steps := allowed
	matches, certain := c.pattern.MatchesWithin(string(text), &steps, 0)
	if !certain {
		m.charge(math.MaxUint64)
	}
	m.charge(uint64(allowed - steps))
	return types.Bool(matches)
}

// Eval implements interpreter.Interpretable.
func (c *matching) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// measureAll appends the sizes of values. The cost of comparing a list or a map with something else does not depend on what is in it.
func measureAll(sizes []extent, values []ref.Val, whole measured, limit uint64) []extent {
	for i, value := range values {
		size := shallow(value)
		if size.count > 0 && whole != noLists {
			_, isMap := value.(traits.Mapper)
			switch {
			case whole == lists && (isMap || i == 0):
			case whole == sameKind:
				if i == 1 && sizes[0].count == size.count {
					sizes[0].weight = weigh(values[0], limit)
					size.weight = weigh(value, sizes[0].weight)
				}
			default:
				size.weight = weigh(value, limit)
			}
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// shallow returns the size of a value without its elements.
func shallow(value ref.Val) extent {
	switch v := value.(type) {
	case types.String:
		return text(uint64(len(v)))
	case types.Bytes:
		return text(uint64(len(v)))
	case *types.Optional:
		if v.HasValue() {
			return shallow(v.GetValue())
		}
	case *celObject:
		return extent{weight: weigh(v, math.MaxUint64)}
	case traits.Lister:
		return extent{count: sizeOf(v), weight: 1}
	case traits.Mapper:
		return extent{count: sizeOf(v), weight: 1}
	}
	return scalar
}

func sizeOf(v traits.Sizer) uint64 {
	size, _ := v.Size().(types.Int)
	return uint64(max(size, 0))
}

// weigh returns the cost of a loop over a value and everything in it, or a number above limit. It takes no longer than the limit.
func weigh(value any, limit uint64) (weight uint64) {
	weight = 1
	add := func(part any) bool {
		weight += elementCost + weigh(part, limit-min(limit, weight))
		return weight <= limit
	}
	switch v := value.(type) {
	case *types.Optional:
		if v.HasValue() {
			return 1 + weigh(v.GetValue(), limit)
		}
	case []string:
		each(v, add)
	case []any:
		each(v, add)
	case []ref.Val:
		each(v, add)
	case []rules.Descriptor:
		each(v, add)
	case rules.Descriptor:
		each(v, add)
	case map[string]string:
		eachEntry(v, add)
	case map[string][]string:
		eachEntry(v, add)
	case map[string]any:
		eachEntry(v, add)
	case map[ref.Val]ref.Val:
		eachEntry(v, add)
	case traits.Mapper:
		if native := v.Value(); isNative(native) {
			return weigh(native, limit)
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			if !add(key) || !add(v.Get(key)) {
				break
			}
		}
	case traits.Lister:
		return weighList(v, limit)
	default:
		return weighPart(value)
	}
	return weight
}

func weighList(v traits.Lister, limit uint64) (weight uint64) {
	if native := v.Value(); isNative(native) {
		return weigh(native, limit)
	}
	weight = 1
	for i := range types.Int(sizeOf(v)) {
		weight += elementCost + weigh(v.Get(i), limit-min(limit, weight))
		if weight > limit {
			break
		}
	}
	return weight
}

// weighPart is weigh for a value without elements.
func weighPart(value any) uint64 {
	switch v := value.(type) {
	case string:
		return text(uint64(len(v))).weight
	case json.Number:
		return text(uint64(len(v))).weight
	case types.String:
		return text(uint64(len(v))).weight
	case types.Bytes:
		return text(uint64(len(v))).weight
	case rules.Entry:
		return 2*elementCost + text(uint64(len(v.Key)+len(v.Value))).weight
	case *celObject:
		if entry, ok := v.native.(*rules.Entry); ok {
			return 2*elementCost + text(uint64(len(entry.Key)+len(entry.Value))).weight
		}
	}
	return 1
}

func each[T any](list []T, add func(any) bool) {
	for i := range list {
		if !add(list[i]) {
			return
		}
	}
}

func eachEntry[K comparable, V any](entries map[K]V, add func(any) bool) {
	for key, value := range entries {
		if !add(key) || !add(value) {
			return
		}
	}
}

// isNative reports whether weigh reads a value without converting its parts to values of CEL.
func isNative(value any) bool {
	switch value.(type) {
	case []string, []any, []ref.Val, []rules.Descriptor, rules.Descriptor, map[string]string, map[string][]string, map[string]any, map[ref.Val]ref.Val:
		return true
	default:
		return false
	}
}
