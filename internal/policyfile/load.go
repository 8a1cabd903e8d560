package policyfile

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/compile/warning"
	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile/hint"
	"github.com/weir-dev/weir/internal/policyfile/structure"
	"github.com/weir-dev/weir/limiter/rules"
)

// DefaultNamespace is the namespace of objects without a namespace, as in kubectl.
const DefaultNamespace = "default"

// Schema validates objects of the Weir API.
type Schema interface {
	// Admit sets the defaults in the content of an object of one of the kinds of the Weir API, removes its status, and reports what is invalid.
	Admit(kind string, content map[string]any, report func(field, message string))
	// IsComplete reports whether Admit reports everything that is invalid. If not, the compiler reports the rest, also of an object with problems.
	IsComplete() bool
}

// Loader compiles files to rules. It is immutable and safe for concurrent use.
type Loader struct {
	schema   Schema
	identity compile.Identity
	budget   budget.Budget
	budgetOf string // begins the warnings for policies that exceed it
}

// Result is the result of compiling files.
type Result struct {
	// Rules are the rules of the valid policies.
	Rules rules.Set
	// Problems are sorted by file and line.
	Problems []Problem
	// Policies is the number of policies in the files, valid and invalid.
	Policies int
	// Skipped lists the documents that are not policies: objects of other APIs, and Limiters, which are validated but not used.
	Skipped []Skipped

	defined  map[key]*object
	policies compile.Policies
	identity compile.Identity
	budget   budget.Budget
	budgetOf string

	overrides []redundancy.Override
}

// NewLoader returns a Loader. Policies without an identifier use the identity table. The schema is that of package apischema, which has the code of the
// API server, or of package structure, which is small and leaves the rules of the API to the compiler. Both reject the same policies.
func NewLoader(identity compile.Identity, schema Schema) *Loader {
	return &Loader{schema: schema, identity: identity, budget: budget.Default(), budgetOf: "with the default budget"}
}

// WithBudget returns a Loader whose warnings are about the budget of a Limiter instead of the default one.
func (l *Loader) WithBudget(b budget.Budget, limiter string) *Loader {
	with := *l
	with.budget, with.budgetOf = b, "with the budget of Limiter "+limiter
	return &with
}

// Load reads the files with [Read] and compiles them with [Loader.Compile]. It returns an error only if a file cannot be read. An invalid
// policy is a Problem of the result.
func (l *Loader) Load(stdin io.Reader, paths ...string) (Result, error) {
	files, err := Read(stdin, paths...)
	if err != nil {
		return Result{}, err
	}
	return l.Compile(files), nil
}

// Compile validates and compiles the policies in files. If two policies have the same name, it uses the first and reports the second.
func (l *Loader) Compile(files []File) Result {
	var result Result
	objects := result.collect(files)
	result.define(objects)

	var policies, invalid compile.Policies
	for _, o := range objects {
		if o.policy() != "" && result.defined[o.key()] != o {
			continue
		}
		problems := admit(o, l.schema, &policies)
		result.Problems = append(result.Problems, problems...)
		if len(problems) > 0 && o.policy() != "" && isPolicyKind(o.text("kind")) && !l.schema.IsComplete() {
			_ = o.decode(&invalid) // an error repeats a problem
		}
	}
	result.addProblems(invalid.Compile(l.identity).Problems)

	result.policies, result.identity, result.budget, result.budgetOf = policies, l.identity, l.budget, l.budgetOf
	compiled := policies.Compile(l.identity)
	result.Rules, result.overrides = compiled.Set, compiled.Overrides
	result.addProblems(compiled.Problems)
	slices.SortStableFunc(result.Problems, byPlace)
	return result
}

// addProblems adds problems that the compiler reports, except about fields with a problem.
func (r *Result) addProblems(found []compile.Problem) {
	type place struct{ policy, field string }
	known := map[place]bool{}
	for i := range r.Problems {
		known[place{r.Problems[i].Policy, r.Problems[i].Field}] = true
	}
	for _, p := range found {
		if !known[place{p.Policy, p.Field}] {
			r.Problems = append(r.Problems, r.defined[keyOf(p.Policy, p.Cluster)].compilerProblem(&p))
		}
	}
}

// compilerProblem returns a problem that the compiler reports.
func (o *object) compilerProblem(p *compile.Problem) Problem {
	rule := lintrule.InvalidValue
	if p.Reason != policyapi.ReasonInvalid {
		rule = lintrule.Conflict
	}
	return o.problem(rule, p.Field, o.improve(p.Field, p.Message))
}

// Warnings returns the warnings for the valid policies, sorted by file and line, without those that annotations suppress.
func (r *Result) Warnings() []Problem {
	problems, _ := r.suppress(r.warnings())
	return problems
}

// warnings returns the warnings for the valid policies.
func (r *Result) warnings() (problems []Problem) {
	specs, others := r.specs(), redundancy.Comparable(r.Rules.Rules)
	for policy, own := range r.Rules.Policies() {
		key := keyOf(policy, own[0].Domain == "")
		o := r.defined[key]
		for _, w := range slices.Concat(warning.ForPolicy(own, others), warning.ForSpec(&own[0], specs[key])) {
			problems = append(problems, o.problem(w.Rule, w.Field, w.Message))
		}
	}
	return append(problems, r.BudgetWarnings()...)
}

// BudgetWarnings returns the warnings for policies that exceed the budget of a Limiter, which is the default one without
// [Loader.WithBudget]. Unlike those of a policy among all others, they take
// linear time.
func (r *Result) BudgetWarnings() (problems []Problem) {
	for _, p := range r.policies.CompileWithin(r.identity, r.budget).Problems {
		if p.Reason == policyapi.ReasonOverBudget { // in a cluster, the Limiter sets the budget
			problems = append(problems, r.defined[keyOf(p.Policy, p.Cluster)].problem(lintrule.OverBudget, p.Field, r.budgetOf+": "+p.Message))
		}
	}
	slices.SortStableFunc(problems, byPlace)
	return problems
}

// Secret returns the valid policies whose identifiers are secret, by name.
func (r *Result) Secret() map[string]bool {
	secret := map[string]bool{}
	for i := range r.Rules.Rules {
		if rule := &r.Rules.Rules[i]; rule.HasSecrets() {
			secret[rule.PolicyName()] = true
		}
	}
	return secret
}

// specs returns the specs of the policies.
func (r *Result) specs() map[key]*policyapi.RateLimitPolicySpec {
	specs := make(map[key]*policyapi.RateLimitPolicySpec, len(r.policies.Namespaced)+len(r.policies.Cluster))
	for i := range r.policies.Namespaced {
		specs[keyOf(compile.Name(&r.policies.Namespaced[i]), false)] = &r.policies.Namespaced[i].Spec
	}
	for i := range r.policies.Cluster {
		specs[keyOf(compile.ClusterName(&r.policies.Cluster[i]), true)] = &r.policies.Cluster[i].Spec.RateLimitPolicySpec
	}
	return specs
}

// byPlace orders problems: a schema reports those of one line in any order.
func byPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Message, b.Message))
}

// collect returns the objects of the Weir API, counts the policies, and records the other documents.
func (r *Result) collect(files []File) (ours []*object) {
	left := newBounds()
	for _, file := range files {
		if left.exceeded {
			break
		}
		objects, skipped, problems := parse(file, left)
		r.Problems, r.Skipped = append(r.Problems, problems...), append(r.Skipped, skipped...)
		for _, o := range objects {
			group, _, _ := strings.Cut(o.text("apiVersion"), "/")
			kind := foreignKind(o)
			switch {
			case isKustomization(o):
				r.skip(o)
			case o.text("apiVersion") == "" || o.text("kind") == "":
				r.Problems = append(r.Problems, o.problem(lintrule.InvalidDocument, "", incomplete(o)))
			case o.text("apiVersion") == apiVersion && slices.Contains(kinds(), o.text("kind")):
				o.annotations, o.ignored = o.suppressions(), o.ignoreAnnotations()
				ours = append(ours, o)
				r.count(o)
			case o.text("apiVersion") == testVersion && o.text("kind") == testKind:
				r.skip(o) // weir test reads it
			case group == apiGroup, group == testGroup, o.text("kind") == testKind:
				field, message := unknownKind(o)
				r.Problems = append(r.Problems, o.problem(lintrule.UnknownKind, field, message))
			case kind != "":
				r.Problems = append(r.Problems, o.problem(lintrule.ForeignGroup, "apiVersion", foreignGroup(o, kind)))
			default:
				r.skip(o)
			}
		}
	}
	return ours
}

// count counts an object of the Weir API, and sets or removes its namespace as an API server does.
func (r *Result) count(o *object) {
	if o.text("kind") == clusterPolicyKind {
		o.dropNamespace()
	} else {
		o.setNamespace(DefaultNamespace)
	}
	if isPolicyKind(o.text("kind")) {
		r.Policies++
	} else {
		r.skip(o)
	}
}

func (r *Result) skip(o *object) {
	r.Skipped = append(r.Skipped, Skipped{
		File: o.file, Line: o.line(""), APIVersion: o.text("apiVersion"), Kind: cmp.Or(o.text("kind"), "Kustomization"),
	})
}

// isKustomization reports whether the object is a kustomization file without kind. Kustomize identifies it by the file name.
func isKustomization(o *object) bool {
	name := strings.TrimSuffix(filepath.Base(o.file), filepath.Ext(o.file))
	return strings.EqualFold(name, "kustomization") && o.text("kind") == ""
}

// define keeps the first object of each kind and name, and reports the others as problems.
func (r *Result) define(objects []*object) {
	r.defined = make(map[key]*object, len(objects))
	for _, o := range objects {
		first := r.defined[o.key()]
		switch {
		case o.policy() == "": // admit reports the missing name
		case first == nil:
			r.defined[o.key()] = o
		default:
			r.Problems = append(r.Problems, o.problem(lintrule.DuplicatePolicy, "metadata.name", fmt.Sprintf(
				"already defined at %s:%d; this policy is ignored", first.file, first.line("metadata.name"))))
		}
	}
}

// admit validates o as an API server does. If o is a valid policy, it appends the policy to policies, or else it returns the problems.
func admit(o *object, schema Schema, policies *compile.Policies) []Problem {
	if o.policy() == "" && o.metadata("generateName") != "" {
		return []Problem{o.problem(lintrule.InvalidValue, "metadata.generateName", "generateName is not supported in files; set metadata.name")}
	}
	problems := append(o.duplicates(), o.validate(schema)...)
	if len(problems) > 0 || !isPolicyKind(o.text("kind")) {
		return problems
	}
	if err := o.decode(policies); err != nil {
		return []Problem{o.problem(lintrule.InvalidValue, "", err.Error())}
	}
	return nil
}

// validate returns what a schema reports about the object. It leaves out what follows from the wrong type of a value: that it is none of the possible
// ones, and that the fields in it are unknown.
func (o *object) validate(schema Schema) (problems []Problem) {
	type found struct{ field, message string }
	var reported []found
	wrongType := map[string]bool{}
	schema.Admit(o.text("kind"), o.content, func(field, message string) {
		if field == "" {
			field = subject(message)
		}
		if hint.Repeats(message) || wrongType[field] {
			return
		}
		field, message = o.aboutMetadata(field, message)
		wrongType[field] = hint.IsAboutType(message)
		reported = append(reported, found{field, message})
	})
	for _, f := range reported {
		switch {
		case f.message != unknownField:
			problems = append(problems, o.problem(lintrule.InvalidValue, f.field, o.improve(f.field, f.message)))
		case !isBelow(f.field, wrongType):
			problems = append(problems, o.problem(lintrule.UnknownField, f.field, f.message+replacement(o.text("kind"), f.field)))
		}
	}
	return problems
}

// isBelow reports whether a field is in the value of one of the others.
func isBelow(field string, others map[string]bool) bool {
	for i := range field {
		if (field[i] == '.' || field[i] == '[') && others[field[:i]] {
			return true
		}
	}
	return false
}

// ruleSubject is how the message of a rule of a whole object begins.
var ruleSubject = regexp.MustCompile(`^Invalid value: (metadata\.name) `)

// subject returns the field that a message about a whole object is about, or "".
func subject(message string) string {
	if m := ruleSubject.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

// aboutMetadata replaces a message of an API server that metadata cannot be decoded by one about the field in it.
func (o *object) aboutMetadata(field, message string) (at, better string) {
	at, better = field, message
	kind, exists := structure.Kind(o.text("kind"))
	if !exists || field != "metadata" || !strings.Contains(message, "cannot unmarshal") {
		return at, better
	}
	metadata, _ := kind.Lookup("metadata")
	written, _ := o.asWritten().(map[string]any)
	metadata.Validate("metadata", written["metadata"], func(field, message string) {
		if better == message || !hint.IsAboutType(message) || hint.IsAboutType(better) {
			return
		}
		at, better = field, message
	})
	return at, better
}

// unknownField is the message of a Schema about a field that does not exist.
const unknownField = "unknown field"

// replacement returns what to use instead of an unknown field: of an earlier version, or with another name. It returns "" if that is unknown. An API
// server removes unknown fields before it calls the webhook, so that only files show them.
func replacement(kind, field string) string {
	switch field {
	case "spec.consistency":
		return "; instead of consistency: Leased, set lease: {}, and omit consistency: Exact"
	case "spec.kubernetesThrottle.enabled":
		return "; use mode: Disabled instead of enabled: false, and omit enabled: true"
	case "spec.kubernetesThrottle.warnPercent":
		return "; use warnAt, such as 80%"
	case "spec.autoscaling.targetCPUUtilizationPercentage":
		return "; use targetCPUUtilization, such as 70%"
	}
	path := steps(field)
	for _, other := range kinds() {
		object, _ := structure.Kind(other)
		if _, exists := object.Lookup(path...); exists {
			return "; only a " + other + " has it"
		}
	}
	object, _ := structure.Kind(kind)
	if meant := hint.Unknown(object, path); meant != "" {
		return "; " + meant
	}
	return ""
}
