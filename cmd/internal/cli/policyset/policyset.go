// Package policyset compiles the policies of files with the identity table and the policy budget of the Limiter in them.
package policyset

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter"
)

// Set is what files have, compiled with the identity table of their Limiter.
type Set struct {
	policyfile.Result

	// HashKey hashes the API keys in the rules. It is random.
	HashKey *limiter.HashKey
	// Identity is the identity table, with the hash key.
	Identity compile.Identity
	// Warnings about the Limiters.
	Warnings []policyfile.Problem

	files   []policyfile.File
	load    func(limiterSettings) *policyfile.Loader
	limiter *limiterSettings // nil without a Limiter that applies
}

// WithLimiterOf returns the set compiled with the identity table of the Limiter of another one, if this one has no Limiter, and the set itself otherwise.
func (c *Set) WithLimiterOf(other *Set) *Set {
	if c.limiter != nil || other.limiter == nil || len(c.Limiters()) > 0 {
		return c
	}
	with := *c
	with.limiter, with.Identity = other.limiter, other.limiter.identity.WithHashKey(c.HashKey)
	with.Result = c.load(*other.limiter).Compile(c.files)
	return &with
}

// limiterSettings are what a Limiter determines about policies.
type limiterSettings struct {
	identity compile.Identity
	budget   budget.Budget
}

// Compile compiles files with the identity table and the budget of the Limiter with a name, "namespace/name", or without a name of the Limiter in the
// files. If they have several that differ, it uses the defaults and adds a warning. It returns an error if the files have no Limiter of the name.
func Compile(files []policyfile.File, name string) (*Set, error) {
	schema, err := apischema.New()
	if err != nil {
		return nil, err
	}
	key := limiter.RandomHashKey()
	load := func(s limiterSettings) *policyfile.Loader {
		return policyfile.NewLoader(s.identity.WithHashKey(key), schema)
	}
	defaults := limiterSettings{identity: compile.DefaultIdentity(), budget: budget.Default()}
	c := &Set{Result: load(defaults).Compile(files), HashKey: key, Identity: defaults.identity.WithHashKey(key), files: files, load: load}
	limiters := c.Limiters()
	if name != "" {
		limiters = slices.DeleteFunc(slices.Clone(limiters), func(l policyfile.Limiter) bool { return l.Name != name })
		if len(limiters) == 0 {
			return nil, fmt.Errorf("the files have no valid Limiter %s; they have %s", name, namesOf(c.Limiters()))
		}
	}
	if len(limiters) == 0 {
		return c, nil
	}
	first, err := settingsOf(&limiters[0])
	if err != nil {
		return nil, err
	}
	for i := range limiters[1:] {
		other, err := settingsOf(&limiters[i+1])
		if err != nil {
			return nil, err
		}
		if !reflect.DeepEqual(first, other) {
			l := &limiters[i+1]
			c.Warnings = append(c.Warnings, policyfile.Problem{
				Rule: lintrule.SeveralLimiters, File: l.File, Line: l.Line, Policy: l.Name,
				Message: fmt.Sprintf("has another identity table or policy budget than %s, and the files are checked with the defaults; choose one with --limiter",
					limiters[0].Name),
			})
			return c, nil
		}
	}
	c.limiter, c.Identity = &first, first.identity.WithHashKey(key)
	c.Result = load(first).WithBudget(first.budget, limiters[0].Name).Compile(files)
	return c, nil
}

func settingsOf(l *policyfile.Limiter) (limiterSettings, error) {
	var object v1alpha1.Limiter
	if err := json.Unmarshal(l.JSON, &object); err != nil {
		return limiterSettings{}, fmt.Errorf("%s: read Limiter %s: %w", l.File, l.Name, err)
	}
	return limiterSettings{stored.IdentityOf(&object.Spec), stored.BudgetOf(&object.Spec)}, nil
}

func namesOf(limiters []policyfile.Limiter) string {
	names := make([]string, len(limiters))
	for i := range limiters {
		names[i] = limiters[i].Name
	}
	if len(names) == 0 {
		return "no Limiter"
	}
	return strings.Join(names, ", ")
}
