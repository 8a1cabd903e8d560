package policyfile

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

// defaultNamespace is that of objects which name none, as it is kubectl's.
const defaultNamespace = "default"

// Loader turns files into rules. It is immutable and safe for concurrent use.
type Loader struct {
	schemas  map[string]*policySchema // by kind
	identity compile.Identity
}

// Result is what files come out as.
type Result struct {
	// Rules are those of the policies without a problem.
	Rules rules.Set
	// Problems are sorted by file and line.
	Problems []Problem
	// Policies is how many policies the files hold, good and bad.
	Policies int
	// Skipped are the documents that are no policies: other programs' concern, or a Limiter, which is validated all the same.
	Skipped []Skipped

	defined map[key]*object
}

// NewLoader returns a Loader whose policies take the identifiers they do not name from identity.
func NewLoader(identity compile.Identity) (*Loader, error) {
	schemas, err := newSchemas()
	if err != nil {
		return nil, err
	}
	return &Loader{schemas: schemas, identity: identity}, nil
}

// Load reads, validates and compiles the files that paths name, as [Read] and [Loader.Compile] do. An error means that
// something could not be read; what is wrong with a policy is a Problem of the result.
func (l *Loader) Load(stdin io.Reader, paths ...string) (Result, error) {
	files, err := Read(stdin, paths...)
	if err != nil {
		return Result{}, err
	}
	return l.Compile(files), nil
}

// Compile validates and compiles the policies in files. Where two have the same name, the first is enforced.
func (l *Loader) Compile(files []File) Result {
	var result Result
	objects := result.collect(files)
	result.define(objects)

	var policies compile.Policies
	for _, o := range objects {
		if o.policy() != "" && result.defined[o.key()] != o {
			continue
		}
		result.Problems = append(result.Problems, l.admit(o, &policies)...)
	}

	compiled := policies.Compile(l.identity)
	result.Rules = compiled.Set
	for _, p := range compiled.Problems {
		result.Problems = append(result.Problems, result.defined[keyOf(p.Policy, p.Cluster)].problem(p.Field, p.Message))
	}
	slices.SortStableFunc(result.Problems, byPlace)
	return result
}

// Warnings are what is costly or useless in the policies without a problem, sorted by file and line.
func (r *Result) Warnings() (all []Problem) {
	for i := range r.Rules.Rules {
		rule := &r.Rules.Rules[i]
		o := r.defined[keyOf(rule.Policy, rule.Domain == "")]
		for _, w := range compile.Warn(rule, r.Rules.Rules) {
			all = append(all, o.problem(w.Field, w.Message))
		}
	}
	slices.SortStableFunc(all, byPlace)
	return all
}

func byPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
}

// collect returns the objects of Weir's in files, counts the policies, and notes what is not one.
func (r *Result) collect(files []File) (ours []*object) {
	for _, file := range files {
		objects, problems := parse(file)
		r.Problems = append(r.Problems, problems...)
		for _, o := range objects {
			switch group, _, _ := strings.Cut(o.text("apiVersion"), "/"); {
			case isKustomization(o):
				r.skip(o)
			case o.text("apiVersion") == "" || o.text("kind") == "":
				r.Problems = append(r.Problems, o.problem("", "an object needs apiVersion and kind"))
			case o.text("apiVersion") == v1alpha1.GroupVersion.String() && slices.Contains(kinds(), o.text("kind")):
				ours = append(ours, o)
				r.count(o)
			case group == v1alpha1.GroupVersion.Group:
				r.Problems = append(r.Problems, o.problem("kind", unknownKind(o)))
			default:
				r.skip(o)
			}
		}
	}
	return ours
}

// count puts an object of Weir's where an API server would: in a namespace, or in none.
func (r *Result) count(o *object) {
	if o.text("kind") == clusterPolicyKind {
		o.dropNamespace()
	} else {
		o.setNamespace(defaultNamespace)
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

// isKustomization: kustomize knows its file by the name alone.
func isKustomization(o *object) bool {
	name := strings.TrimSuffix(filepath.Base(o.file), filepath.Ext(o.file))
	return strings.EqualFold(name, "kustomization") && o.text("kind") == ""
}

// define keeps the first object of each kind and name, and notes the others.
func (r *Result) define(objects []*object) {
	r.defined = make(map[key]*object, len(objects))
	for _, o := range objects {
		first := r.defined[o.key()]
		switch {
		case o.policy() == "": // admit says what is wrong with it
		case first == nil:
			r.defined[o.key()] = o
		default:
			r.Problems = append(r.Problems, o.problem("metadata.name", fmt.Sprintf(
				"already defined at %s:%d; that one counts", first.file, first.line("metadata.name"))))
		}
	}
}

// admit appends o to policies, if it is one, as an API server would store it, or returns what an API server would refuse it for.
func (l *Loader) admit(o *object, policies *compile.Policies) []Problem {
	if o.policy() == "" && o.metadata("generateName") != "" {
		return []Problem{o.problem("metadata.generateName", "only a server makes up names: give metadata.name")}
	}
	problems := o.duplicates()
	for _, f := range l.schemas[o.text("kind")].admit(o.content) {
		problems = append(problems, o.problem(f.field, f.message))
	}
	if len(problems) > 0 || !isPolicyKind(o.text("kind")) {
		return problems
	}
	if err := o.decode(policies); err != nil {
		return []Problem{o.problem("", err.Error())}
	}
	return nil
}
