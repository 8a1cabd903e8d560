// Package expr evaluates the CEL expressions of rules, within bounds of time and memory. Programs that have expressions import package celexpr, which
// compiles them: the others do without the CEL library.
package expr

import (
	"errors"
	"fmt"
	"math"

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

// MaxExpression is the maximum length of an expression, in bytes.
const MaxExpression = 4096

// Expression is a compiled CEL expression. It is safe for concurrent use.
type Expression struct {
	Program Program
	Base    uint64 // cost of an evaluation without loops and without functions whose cost depends on the request
	Reads   Reads  // the parts of an HTTP request on which the result can depend
}

// Program evaluates an expression.
type Program interface {
	// Evaluate returns the native value, and what is left of the units that the evaluation may cost. Every error is an EvaluationError.
	Evaluate(on *Activation, allowed uint64) (value any, left uint64, err error)
}

// Reads are the parts of an HTTP request that servers can read in several ways.
type Reads struct{ Path, Query bool }

// IsAmbiguous reports whether the request has several readings of one of the parts.
func (p Reads) IsAmbiguous(r *rules.Request) bool {
	return p.Path && r.RawPath != "" || p.Query && len(r.OtherQueries) > 0
}

// And returns the parts of both.
func (p Reads) And(more Reads) Reads { return Reads{p.Path || more.Path, p.Query || more.Query} }

// Activation is a request as the variable of expressions. It is created when the first expression is evaluated.
type Activation struct {
	Request *rules.Request
	// State is what the Compiler keeps for the evaluations on this activation. It is nil at first.
	State  any
	shared *shared

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

const (
	// maxRequestCost bounds the cost of all expressions of the policies of a namespace for one request. Those of cluster policies have as
	// much for themselves.
	maxRequestCost = 50_000
	// MinExpressionCost is what each expression can cost, however much the others have cost.
	MinExpressionCost = 250
)

// NewActivation returns the Activation of a request with all of its units.
func NewActivation(r *rules.Request) *Activation {
	r.ReadHeaders() // an expression can read them all
	return &Activation{Request: r, shared: &shared{namespaced: maxRequestCost, cluster: maxRequestCost}}
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

// EvaluationError is the error of an evaluation.
type EvaluationError struct {
	Err error

	// Absent is true if the expression read something that the request does not have.
	Absent bool
}

// Error implements error.
func (f EvaluationError) Error() string { return f.Err.Error() }

// ErrOverBudget is the error of an evaluation that costs more than it may.
var ErrOverBudget = errors.New("the request is too large to evaluate the expression")

// evaluate returns the native value of an expression of a rule. Every error is an EvaluationError.
func (e *Expression) evaluate(on *Activation, rule *rules.Rule) (any, error) {
	if e.Reads.Query && on.Request.PartialQuery {
		return nil, EvaluationError{Err: ErrOverBudget}
	}
	left := on.Left(rule)
	allowed := max(*left, MinExpressionCost)
	if e.Base > allowed {
		return nil, EvaluationError{Err: ErrOverBudget}
	}
	value, unused, err := e.Program.Evaluate(on, allowed-e.Base)
	*left -= min(*left, allowed-unused)
	return value, err
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
