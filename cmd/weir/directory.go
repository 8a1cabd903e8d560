package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/source"
)

// directory compiles the policies in a directory. A source.Files calls its methods one at a time.
type directory struct {
	path    string
	loader  *policyfile.Loader
	install source.Apply
	active  rules.Set
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
	set, kept := retain(result.Rules, d.active, result.Problems)
	if len(kept) > 0 {
		problems = append(problems, "the previous version stays enforced: "+abbreviate(kept))
	}
	return set, problems, nil
}

// abbreviate lists at most ten policies, and the number of the remaining ones.
func abbreviate(policies []string) string {
	const shown = 10
	if more := len(policies) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(policies[:shown], ", "), more)
	}
	return strings.Join(policies, ", ")
}

// apply is a source.Apply.
func (d *directory) apply(set rules.Set, revision string) error {
	if err := d.install(set, revision); err != nil {
		return err
	}
	d.active = set
	return nil
}

// retain returns set plus each rule of before that is missing from set because of a problem: an invalid edit must not lift a
// limit. kept lists the policies of these rules. A problem without the name of a policy concerns a file that is not valid YAML;
// the file may have contained any rule.
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
