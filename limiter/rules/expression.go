package rules

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// ResultType is what an expression comes out as.
type ResultType string

// What expressions come out as.
const (
	ResultBool   ResultType = "bool"
	ResultString ResultType = "string"
	ResultInt    ResultType = "int"
)

// maxExpression is the longest text of an expression, in bytes.
const maxExpression = 4096

// ValidateExpression says why text is not a CEL expression over request that comes out as result, as "line:column: what is
// wrong"; nil if it is one. It refuses expressions over 4096 bytes, those whose worst case takes more than
// 20 000 steps, and regular expressions that are not written out.
//
// An expression speaks of request:
//
//	domain, method, host, path, clientIP  string; path is in normal form, clientIP is "" where it is unknown
//	headers                               map(string, string), names in lower case
//	query                                 map(string, list(string))
//	claims                                map(string, dyn)
//	descriptors                           list(list(entry)), an entry has key and value
//
// and has beside CEL's own functions those of its extensions strings, sets, math, encoders, network (ip, cidr) and
// optional values: request.headers[?"x-plan"].orValue("free").
//
// It fails on a request when it asks for what the request does not have, request.headers["x-plan"] without that header, or
// because of what the request holds: int("many"), or too much to look at. What that means depends on what it is for:
//
//   - Match.Expression: a request without what is asked for does not match. Any other failure does, for nobody must get
//     round a limit by what he sends. To match requests without the header, ask: !("x-plan" in request.headers) || ….
//   - When.Expression: the request is not of the tier.
//   - Identifier: it is missing.
//   - Cost: it is 1.
//
// A dyn, a claim, is taken for what it is when the request comes.
func ValidateExpression(text string, result ResultType) error {
	_, err := httpLanguage.compile(text, result)
	return err
}

// ValidateKubernetesExpression is [ValidateExpression] for expressions over a write to the Kubernetes API. They have the same
// functions and bounds, and speak of request as the AdmissionRequest of admission.k8s.io/v1 that an API server asks with:
//
//	operation                            string: CREATE, UPDATE, DELETE, CONNECT
//	resource                             group, version, resource, each a string
//	subResource, namespace, name         string, "" for none
//	kind                                 kind, a string
//	userInfo                             username, a string; groups, list(string); extra, map(string, list(string))
//	object, oldObject, options           dyn, null for none
//	dryRun                               bool
//
// What an object does not have it is asked for in vain, see [ValidateExpression]: request.object.spec.parallelism > 10 fails on a
// Job without, has(request.object.spec.parallelism) does not.
func ValidateKubernetesExpression(text string, result ResultType) error {
	_, err := admissionLanguage.compile(text, result)
	return err
}

type expressionKey struct {
	language *language
	text     string
	result   ResultType
}

// expression is a CEL expression, compiled. It is safe for concurrent use.
type expression struct{ program cel.Program }

// compileCEL compiles text as ValidateExpression checks it.
func compileCEL(of *language, text string, result ResultType) (*expression, error) {
	checked, err := of.compile(text, result)
	if err != nil {
		return nil, err
	}
	env, err := of.environment()
	if err != nil {
		return nil, err
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxExpressionCost))
	if err != nil {
		return nil, err
	}
	return &expression{program}, nil
}

func (l *language) compile(text string, result ResultType) (*cel.Ast, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("the expression is empty")
	case len(text) > maxExpression:
		return nil, fmt.Errorf("the expression is longer than %d bytes", maxExpression)
	}
	env, err := l.environment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, l.compileError(issues)
	}
	if out := checked.OutputType(); !out.IsExactType(types.DynType) && out.String() != string(result) {
		return nil, fmt.Errorf("1:1: the expression comes out as %s, want %s", cel.FormatCELType(out), result)
	}
	if err := validateCalls(checked.NativeRep()); err != nil {
		return nil, err
	}
	cost, err := env.EstimateCost(checked, l.sizes)
	if err != nil {
		return nil, err
	}
	if cost.Max > maxExpressionCost {
		return nil, fmt.Errorf("1:1: the expression costs up to %s steps on a large request, at most %d are taken; "+
			"nest no loops over "+l.sizes.loops+", and search no long texts for long texts", steps(cost.Max), maxExpressionCost)
	}
	return checked, nil
}

func steps(cost uint64) string {
	if cost == math.MaxUint64 {
		return "endless"
	}
	return strconv.FormatUint(cost, 10)
}

// validateCalls refuses what compiles and is not to be: regular expressions that the request writes, for they may be of any
// size, and messages.
func validateCalls(checked *ast.AST) (err error) {
	refuse := func(e ast.Expr, why string) {
		if err == nil {
			at := checked.SourceInfo().GetStartLocation(e.ID())
			err = fmt.Errorf("%d:%d: %s", at.Line(), at.Column()+1, why)
		}
	}
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.StructKind {
			refuse(e, "expressions make no values of type "+e.AsStruct().TypeName())
		}
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		last := args[len(args)-1]
		if last.Kind() != ast.LiteralKind {
			refuse(last, "write the regular expression of matches out, as a text in quotes")
			return
		}
		if text, is := last.AsLiteral().(types.String); is {
			if bad := validateRegexp(string(text)); bad != nil {
				refuse(last, bad.Error())
			}
		}
	}))
	return err
}

// activation is a request as expressions see it, made when the first is met.
type activation struct {
	request   *Request
	admission admissionRequest // of a write to the Kubernetes API
}

func newActivation(r *Request) *activation {
	a := &activation{request: r}
	if r.Kubernetes != nil {
		a.admission.set(r.Kubernetes)
	}
	return a
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch {
	case name != requestName:
		return nil, false
	case a.request.Kubernetes != nil:
		return &a.admission, true
	default:
		return a.request, true
	}
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }

// failure is why an expression did not come out.
type failure struct {
	error

	// absent: it asked for what the request does not have.
	absent bool
}

// evaluate returns the native value; an error is a failure. Panics of the library come back as errors.
func (e *expression) evaluate(on *activation) (any, error) {
	value, _, err := e.program.Eval(on)
	if err != nil {
		return nil, failure{err, absent(err)}
	}
	return value.Value(), nil
}

// absent tells the errors of CEL apart that say that there is no such key, or element. It has no other pattern to tell them.
func absent(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "no such key") || strings.HasPrefix(text, "index out of bounds") ||
		strings.HasPrefix(text, "index '")
}

// selects says whether a rule whose condition e is matches the request, see ValidateExpression.
func (e *expression) selects(on *activation) bool {
	is, err := e.bool(on)
	if f, failed := errors.AsType[failure](err); failed {
		return !f.absent
	}
	return is
}

func (e *expression) bool(on *activation) (bool, error) {
	value, err := e.evaluate(on)
	if err != nil {
		return false, err
	}
	is, ok := value.(bool)
	if !ok {
		return false, failure{error: fmt.Errorf("comes out as %T, want a bool", value)}
	}
	return is, nil
}

// text returns what comes out as an identifier, "" for a failure.
func (e *expression) text(on *activation) string {
	value, err := e.evaluate(on)
	if err != nil {
		return ""
	}
	return scalarText(value)
}

func (e *expression) int(on *activation) (int64, error) {
	value, err := e.evaluate(on)
	if err != nil {
		return 0, err
	}
	switch v := value.(type) {
	case int64:
		return v, nil
	case float64: // a number of a claim
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
	}
	return 0, failure{error: fmt.Errorf("comes out as %v, want an int", value)}
}
