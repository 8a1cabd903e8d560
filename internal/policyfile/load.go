package policyfile

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

const (
	policyKind = "RateLimitPolicy"
	// defaultNamespace is that of policies which name none, as it is kubectl's.
	defaultNamespace = "default"
)

// Loader turns files into rules. It is immutable and safe for concurrent use.
type Loader struct {
	schema   *policySchema
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
	// Skipped are the documents of other kinds, which are other programs' concern.
	Skipped []Skipped
}

// NewLoader returns a Loader whose policies take the identifiers they do not name from identity.
func NewLoader(identity compile.Identity) (*Loader, error) {
	s, err := newSchema(crd.RateLimitPolicies(), v1alpha1.GroupVersion.Version)
	if err != nil {
		return nil, fmt.Errorf("policy schema: %w", err)
	}
	return &Loader{schema: s, identity: identity}, nil
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
	result.Policies = len(objects)
	defined := result.define(objects)

	var policies []v1alpha1.RateLimitPolicy
	for _, o := range objects {
		if o.policy() != "" && defined[o.policy()] != o {
			continue
		}
		policy, problems := l.admit(o)
		if len(problems) == 0 {
			policies = append(policies, policy)
		}
		result.Problems = append(result.Problems, problems...)
	}

	set, problems := compile.Compile(policies, l.identity)
	result.Rules = set
	for _, p := range problems {
		result.Problems = append(result.Problems, defined[p.Policy].problem(p.Field, p.Message))
	}
	slices.SortStableFunc(result.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return result
}

// collect returns the policies in files, and notes what is not one.
func (r *Result) collect(files []File) (policies []*object) {
	for _, file := range files {
		objects, problems := parse(file)
		r.Problems = append(r.Problems, problems...)
		for _, o := range objects {
			switch group, _, _ := strings.Cut(o.text("apiVersion"), "/"); {
			case isKustomization(o):
				r.skip(o)
			case o.text("apiVersion") == "" || o.text("kind") == "":
				r.Problems = append(r.Problems, o.problem("", "an object needs apiVersion and kind"))
			case o.text("apiVersion") == v1alpha1.GroupVersion.String() && o.text("kind") == policyKind:
				o.setNamespace(defaultNamespace)
				policies = append(policies, o)
			case group == v1alpha1.GroupVersion.Group:
				r.Problems = append(r.Problems, o.problem("kind", fmt.Sprintf(
					"no kind %s in %s; known is %s in %s", o.text("kind"), o.text("apiVersion"), policyKind, v1alpha1.GroupVersion)))
			default:
				r.skip(o)
			}
		}
	}
	return policies
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

// define returns the first policy of each name, and notes the others.
func (r *Result) define(policies []*object) map[string]*object {
	defined := map[string]*object{}
	for _, o := range policies {
		name := o.policy()
		first := defined[name]
		switch {
		case name == "": // admit says what is wrong with it
		case first == nil:
			defined[name] = o
		default:
			r.Problems = append(r.Problems, o.problem("metadata.name", fmt.Sprintf(
				"already defined at %s:%d; that one counts", first.file, first.line("metadata.name"))))
		}
	}
	return defined
}

// admit returns the policy as an API server would store it, or what an API server would refuse it for.
func (l *Loader) admit(o *object) (policy v1alpha1.RateLimitPolicy, problems []Problem) {
	if o.policy() == "" && o.metadata("generateName") != "" {
		return policy, []Problem{o.problem("metadata.generateName", "only a server makes up names: give metadata.name")}
	}
	problems = o.duplicates()
	for _, f := range l.schema.admit(o.content) {
		problems = append(problems, o.problem(f.field, f.message))
	}
	if len(problems) > 0 {
		return policy, problems
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.content, &policy); err != nil {
		return policy, []Problem{o.problem("", err.Error())}
	}
	return policy, nil
}
