// Package expr compiles and evaluates the CEL expressions of rules, within bounds of time and memory.
package expr

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// ResultType is the type that an expression evaluates to.
type ResultType string

// The result types.
const (
	ResultBool   ResultType = "bool"
	ResultString ResultType = "string"
	ResultInt    ResultType = "int"
)

// maxExpression is the maximum length of an expression, in bytes.
const maxExpression = 4096

// Validate returns an error, as "line:column: problem", if text is not a CEL expression over request that evaluates to result.
// It rejects expressions over 4096 bytes, expressions that cost more than 50 000 units for a large request, functions whose results can be
// too large, and regular expressions that are not string literals. A limiter accepts every expression for which it returns nil.
//
// The fields of request are:
//
//	domain, method, host, path, clientIP  string; path is normalized, clientIP is "" if the address is unknown
//	headers                               map(string, string), names in lower case
//	query                                 map(string, list(string))
//	claims                                map(string, dyn)
//	descriptors                           list(list(entry)), an entry has key and value
//
// The functions are those of CEL and of its extensions strings, sets, math, encoders, network (ip, cidr) and optional values, for example
// request.headers[?"x-plan"].orValue("free").
//
// The evaluation fails if the expression reads something that the request does not have, for example request.headers["x-plan"] without
// that header, or because of the content of the request, for example int("many") or too much data. The consequence depends on the use:
//
//   - Match.Expression: if the request does not have what the expression reads, it does not match. After any other failure it matches,
//     so that a client cannot avoid a limit by what it sends. To match requests without a header, use
//     !("x-plan" in request.headers) || ….
//   - When.Expression: if the request does not have what the expression reads, it does not belong to the tier. After any other failure the
//     tier applies if its limit is lower than the one that applies otherwise.
//   - Identifier: if the request does not have what the expression reads, the identifier is missing. After any other failure it is
//     unreadable.
//   - Cost: if the request does not have what the expression reads, the cost is 1. After any other failure it is the whole limit.
//
// The type of a dyn, such as a claim, is determined when the expression is evaluated.
func Validate(text string, result ResultType) error {
	return validated.validate(Key{HTTP, text, result})
}

// ValidateKubernetes is [Validate] for expressions over a write to the Kubernetes API. The functions and bounds are the
// same. The variable request is the AdmissionRequest of admission.k8s.io/v1:
//
//	operation                            string: CREATE, UPDATE, DELETE, CONNECT
//	resource                             group, version, resource, each a string
//	subResource, namespace, name         string, "" if absent
//	kind                                 kind, a string
//	userInfo                             username, a string; groups, list(string); extra, map(string, list(string))
//	object, oldObject, options           dyn, null if absent
//	dryRun                               bool
//
// An expression fails if it reads a field that the object does not have, see [Validate]: request.object.spec.parallelism > 10
// fails on a Job without the field, but has(request.object.spec.parallelism) does not.
func ValidateKubernetes(text string, result ResultType) error {
	return validated.validate(Key{Admission, text, result})
}

// Key identifies a compiled expression.
type Key struct {
	Language *Language
	Text     string
	Result   ResultType
}

// validations remembers the results of Validate: an operator validates all policies after each change of one, and a long expression
// takes tens of milliseconds.
type validations struct {
	mu      sync.Mutex
	results map[Key]error
}

// maxValidations bounds the memory, together with maxExpression. A Limiter has at most 2000 expressions by default.
const maxValidations = 4096

var validated validations //nolint:gochecknoglobals // a cache

func (v *validations) validate(key Key) error {
	v.mu.Lock()
	err, cached := v.results[key]
	v.mu.Unlock()
	if cached {
		return err
	}
	_, err = Compile(key.Language, key.Text, key.Result)
	if len(key.Text) > maxExpression { // the key would hold the text
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.results == nil || len(v.results) >= maxValidations {
		v.results = map[Key]error{}
	}
	v.results[key] = err
	return err
}

// Expression is a compiled CEL expression. It is safe for concurrent use.
type Expression struct {
	program cel.Program
	base    uint64 // cost of an evaluation without loops and without functions whose cost depends on the request
	Reads   Reads  // the parts of an HTTP request on which the result can depend
}

// Compile compiles an expression that meets the conditions of Validate.
func Compile(language *Language, text string, result ResultType) (*Expression, error) {
	checked, prepared, err := language.compile(text, result)
	if err != nil {
		return nil, err
	}
	env, err := language.Environment()
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
	e := &Expression{program: program, base: prepared.base()}
	if language == HTTP {
		e.Reads = Reads{Path: readsField(checked.NativeRep(), "path"), Query: readsField(checked.NativeRep(), "query")}
	}
	return e, nil
}

// compile parses and type-checks text, and rejects expressions that are too expensive.
func (l *Language) compile(text string, result ResultType) (*cel.Ast, *prepared, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, nil, errors.New("the expression must not be empty")
	case len(text) > maxExpression:
		return nil, nil, fmt.Errorf("the expression must be at most %d bytes long", maxExpression)
	}
	env, err := l.Environment()
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
func (l *Language) maxCost(checked *cel.Ast, p *prepared) uint64 {
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

// Reads are the parts of an HTTP request that servers can read in several ways.
type Reads struct{ Path, Query bool }

// IsAmbiguous reports whether the request has several readings of one of the parts.
func (p Reads) IsAmbiguous(r *rules.Request) bool {
	return p.Path && r.RawPath != "" || p.Query && len(r.OtherQueries) > 0
}

// And returns the parts of both.
func (p Reads) And(more Reads) Reads { return Reads{p.Path || more.Path, p.Query || more.Query} }

// readsField reports whether an expression can read a field of the request: it selects the field, or uses the request other than by a field.
func readsField(checked *ast.AST, name string) bool {
	uses, others := 0, 0 // of the request
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case e.Kind() == ast.IdentKind && e.AsIdent() == RequestName:
			uses++
		case e.Kind() == ast.SelectKind:
			selection := e.AsSelect()
			if selection.FieldName() != name && selection.Operand().Kind() == ast.IdentKind && selection.Operand().AsIdent() == RequestName {
				others++
			}
		}
	}))
	return uses != others
}

// Activation is a request as the variable of expressions. It is created when the first expression is evaluated.
type Activation struct {
	Request   *rules.Request
	admission admissionRequest // set if request is a write to the Kubernetes API
	shared    *shared
	meter     meter // of the current evaluation

	// repeats is the request with other readings of its path and query, see Repeated; nil until the first rule needs them.
	repeats  []rules.Request
	complete bool
}

// shared is what the activations of all readings of a request share.
type shared struct {
	// The units that the expressions of the policies of the namespace, and of cluster policies, can still cost.
	namespaced, cluster uint64
	inherited           map[string]*uint64 // the same for policies of other namespaces, by namespace; nil without
	groups              map[string]bool    // nil until a tier reads them
}

// Left returns the units that the expressions of a rule share with those of the other rules of its namespace, or of cluster policies. The policies of
// a Gateway must not use up the units of the namespaces that inherit them.
func (a *Activation) Left(rule *rules.Rule) *uint64 {
	switch rule.Domain {
	case "":
		return &a.shared.cluster
	case a.Request.Domain:
		return &a.shared.namespaced
	}
	left := a.shared.inherited[rule.Domain]
	if left == nil {
		if a.shared.inherited == nil {
			a.shared.inherited = map[string]*uint64{}
		}
		left = new(uint64(maxRequestCost))
		a.shared.inherited[rule.Domain] = left
	}
	return left
}

// NewActivation returns the Activation of a request with all of its units.
func NewActivation(r *rules.Request) *Activation {
	r.ReadHeaders() // an expression can read them all
	a := &Activation{Request: r, shared: &shared{namespaced: maxRequestCost, cluster: maxRequestCost}}
	if r.Kubernetes != nil {
		a.admission.set(r.Kubernetes)
	}
	return a
}

// Repeated returns the request for at most maxRepeated readings of its path, each with all readings of its query, and whether these are all. The
// rules of a request share them.
func (a *Activation) Repeated() (requests []rules.Request, complete bool) {
	if a.repeats == nil {
		paths, complete := []string{a.Request.Path}, true
		if a.Request.RawPath != "" {
			readings := reading.Of(a.Request.RawPath)
			paths = readings.Paths[:min(len(readings.Paths), maxRepeated)]
			complete = !readings.Unknown && len(paths) == len(readings.Paths)
		}
		a.repeats, a.complete = RequestsOf(a.Request, paths), complete
	}
	return a.repeats, a.complete
}

// Reading returns the Activation of another reading of the request, for example of its path. They share the units.
func (a *Activation) Reading(r *rules.Request) *Activation {
	activation := NewActivation(r)
	activation.shared = a.shared
	return activation
}

// Groups returns the groups in the claims. They are read once for a request: a token can have thousands, and every tier compares them.
func (a *Activation) Groups() map[string]bool {
	if a.shared.groups == nil {
		a.shared.groups = rules.ClaimedGroups(a.Request.Claims)
	}
	return a.shared.groups
}

// ResolveName implements interpreter.Activation.
func (a *Activation) ResolveName(name string) (any, bool) {
	switch {
	case name == meterName:
		return &a.meter, true
	case name != RequestName:
		return nil, false
	case a.Request.Kubernetes != nil:
		return &a.admission, true
	default:
		return a.Request, true
	}
}

// Parent implements interpreter.Activation.
func (a *Activation) Parent() interpreter.Activation { return nil }

// EvaluationError is the error of an evaluation.
type EvaluationError struct {
	Err error

	// Absent is true if the expression read something that the request does not have.
	Absent bool
}

// Error implements error.
func (f EvaluationError) Error() string { return f.Err.Error() }

// evaluate returns the native value of an expression of a rule. Every error is an EvaluationError. The library returns panics as errors.
func (e *Expression) evaluate(on *Activation, rule *rules.Rule) (any, error) {
	if e.Reads.Query && on.Request.PartialQuery {
		return nil, EvaluationError{Err: errOverBudget}
	}
	left := on.Left(rule)
	allowed := max(*left, minExpressionCost)
	if e.base > allowed {
		return nil, EvaluationError{Err: errOverBudget}
	}
	on.meter.left = allowed - e.base
	value, _, err := e.program.Eval(on)
	*left -= min(*left, allowed-on.meter.left)
	if err != nil {
		return nil, EvaluationError{Err: err, Absent: absent(err)}
	}
	return value.Value(), nil
}

// absent reports whether a CEL error means that a key or an element does not exist. CEL has no error types: the text is the only
// criterion.
func absent(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "no such key") || strings.HasPrefix(text, "index out of bounds") ||
		strings.HasPrefix(text, "index '")
}

// Selects reports whether a rule with condition e matches the request, see Validate. If the result is unknown, the rule matches.
func (e *Expression) Selects(on *Activation, rule *rules.Rule) (selected, certain bool) {
	selected, err := e.bool(on, rule)
	if f, failed := errors.AsType[EvaluationError](err); failed {
		return false, f.Absent
	}
	return selected, true
}

func (e *Expression) bool(on *Activation, rule *rules.Rule) (bool, error) {
	value, err := e.evaluate(on, rule)
	if err != nil {
		return false, err
	}
	result, ok := value.(bool)
	if !ok {
		return false, EvaluationError{Err: fmt.Errorf("the expression evaluated to %T, but must evaluate to a bool", value)}
	}
	return result, nil
}

// Text returns the result as an identifier.
func (e *Expression) Text(on *Activation, rule *rules.Rule) (string, error) {
	value, err := e.evaluate(on, rule)
	if err != nil {
		return "", err
	}
	text := rules.ScalarText(value)
	if text == "" && value != "" {
		return "", EvaluationError{Err: fmt.Errorf("the expression evaluated to %T, but must evaluate to a string", value)}
	}
	return text, nil
}

// Int returns the result as a number of units.
func (e *Expression) Int(on *Activation, rule *rules.Rule) (int64, error) {
	value, err := e.evaluate(on, rule)
	if err != nil {
		return 0, err
	}
	switch v := value.(type) {
	case int64:
		return v, nil
	case float64: // a number in a claim or in an object
		if !math.IsNaN(v) {
			return int64(max(-1<<62, min(math.Ceil(v), 1<<62))), nil // within int64, and far beyond the limits of the caller
		}
	}
	return 0, EvaluationError{Err: fmt.Errorf("the expression evaluated to %v, but must evaluate to an int", value)}
}

// maxRepeated is the number of readings for which the conditions of a tier, a cost or an identifier are evaluated.
const maxRepeated = 8

// RequestsOf returns the request with each of the paths, for the usual reading of the query and then for each of the others.
func RequestsOf(r *rules.Request, paths []string) []rules.Request {
	requests := make([]rules.Request, 0, len(paths)*(1+len(r.OtherQueries)))
	for reading := range 1 + len(r.OtherQueries) {
		for _, path := range paths {
			one := *r
			one.Path, one.RawPath, one.OtherQueries = path, "", nil
			if reading > 0 {
				one.Query = r.OtherQueries[reading-1]
			}
			requests = append(requests, one)
		}
	}
	return requests
}
