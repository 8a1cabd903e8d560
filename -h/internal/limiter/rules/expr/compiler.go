package expr

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

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
	Language Language
	Text     string
	Result   ResultType
}

// validations remembers the results of Validate: an operator validates all policies after each change of one, and a long expression
// takes tens of milliseconds.
type validations struct {
	mu      sync.Mutex
	results map[Key]error
}

// maxValidations bounds the memory, together with MaxExpression. A Limiter has at most 2000 expressions by default.
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
	if len(key.Text) > MaxExpression { // the key would hold the text
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

// Language is a kind of requests that expressions are over.
type Language string

// The languages.
const (
	HTTP      Language = "HTTP requests"
	Admission Language = "writes to the Kubernetes API"
)

// LanguageOf returns the language of the expressions of a rule.
func LanguageOf(rule *rules.Rule) Language {
	if rule.Match.Kubernetes != nil {
		return Admission
	}
	return HTTP
}

// Compiler compiles expressions that meet the conditions of [Validate].
type Compiler func(language Language, text string, result ResultType) (*Expression, error)

var compiler atomic.Pointer[Compiler] //nolint:gochecknoglobals // set by the import of package celexpr, as drivers of database/sql are

// Register sets the Compiler. Package celexpr calls it when a program imports it.
func Register(c Compiler) { compiler.Store(&c) }

// ErrNoCompiler is the error for every expression in a program that does not import package celexpr.
var ErrNoCompiler = errors.New("this program has no CEL: to use expressions, import _ \"github.com/weir-dev/weir/go/weir/cel\"")

// Compile compiles an expression.
func Compile(language Language, text string, result ResultType) (*Expression, error) {
	c := compiler.Load()
	if c == nil {
		return nil, ErrNoCompiler
	}
	return (*c)(language, text, result)
}
