package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/source"
)

// directory makes rules of a directory of policies. Its methods are called one at a time, by a source.Files.
type directory struct {
	path    string
	loader  *policyfile.Loader
	install source.Apply
	inForce rules.Set
}

// load is a source.Load.
func (d *directory) load() (rules.Set, []string, error) {
	result, err := d.loader.Load(nil, d.path)
	if err != nil {
		return rules.Set{}, nil, err
	}
	problems := make([]string, len(result.Problems), len(result.Problems)+1)
	for i, p := range result.Problems {
		problems[i] = p.String()
	}
	set, kept := retain(result.Rules, d.inForce, result.Problems)
	if len(kept) > 0 {
		problems = append(problems, "in force as before: "+few(kept))
	}
	return set, problems, nil
}

// few names some of the policies, and says how many more there are.
func few(policies []string) string {
	const told = 10
	if more := len(policies) - told; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(policies[:told], ", "), more)
	}
	return strings.Join(policies, ", ")
}

// apply is a source.Apply.
func (d *directory) apply(set rules.Set, revision string) error {
	if err := d.install(set, revision); err != nil {
		return err
	}
	d.inForce = set
	return nil
}

// retain returns set and, of the rules that were in force before, those that a problem keeps out of it, which kept names: a
// broken edit must not lift a limit. A problem without a policy's name is that of a file that cannot be read as YAML, and any rule
// may have been in it.
func retain(set, before rules.Set, problems []policyfile.Problem) (_ rules.Set, kept []string) {
	if len(problems) == 0 {
		return set, nil
	}
	all := slices.Clone(set.Rules)
	for _, rule := range before.Rules {
		_, replaced := slices.BinarySearchFunc(set.Rules, rule, byPolicy)
		blamed := func(p policyfile.Problem) bool { return p.Policy == "" || p.Policy == rule.Policy }
		if !replaced && slices.ContainsFunc(problems, blamed) {
			all, kept = append(all, rule), append(kept, rule.Policy)
		}
	}
	slices.SortFunc(all, byPolicy)
	set.Rules = all
	return set, kept
}

func byPolicy(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) }
