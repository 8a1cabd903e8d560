package replaycommand

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/replay"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// maxProblems is the number of problems of policies that are printed.
const maxProblems = 20

// load compiles the policies.
func (f *replayFlags) load(streams cli.Streams) (*replay.Options, *proposal, error) {
	key, err := cli.ReadHashKey(f.hashKey)
	if err != nil {
		return nil, nil, cli.UsageError(err)
	}
	if key == nil {
		key = limiter.RandomHashKey()
	}
	schema, err := apischema.New()
	if err != nil {
		return nil, nil, err
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(key), schema)
	proposal, err := f.proposal()
	if err != nil {
		return nil, nil, cli.UsageError(err)
	}
	if proposal != nil && f.domain == "" && f.policies != "" { // the proposal is for the requests of the other policies
		others, err := compilePolicies(streams, loader, "--policies", f.policies, nil)
		if err != nil {
			return nil, nil, err
		}
		if proposal.namespace, err = f.domainOf(&others); err != nil {
			return nil, nil, cli.UsageError(err)
		}
	}
	set, err := compilePolicies(streams, loader, "--policies", f.policies, proposal)
	if err != nil {
		return nil, nil, err
	}
	options := &replay.Options{Policies: set, HashKey: key}
	if f.before != "" {
		before, err := compilePolicies(streams, loader, "--policies-before", f.before, nil)
		if err != nil {
			return nil, nil, err
		}
		options.Before = &before
	}
	if options.Domain, err = f.domainOf(&set); err != nil {
		return nil, nil, cli.UsageError(err)
	}
	return options, proposal, nil
}

// compilePolicies returns the rules of the policies at a path, and of a proposal.
func compilePolicies(streams cli.Streams, loader *policyfile.Loader, flag, path string, proposal *proposal) (rules.Set, error) {
	var files []policyfile.File
	if path != "" {
		var err error
		if files, err = policyfile.Read(nil, path); err != nil {
			return rules.Set{}, cli.UsageError(fmt.Errorf("%s: %w", flag, err))
		}
	}
	if proposal != nil {
		files = append(files, proposal.file())
	}
	compiled := loader.Compile(files)
	if n := len(compiled.Problems); n > 0 {
		for _, problem := range compiled.Problems[:min(n, maxProblems)] {
			terminal.Println(streams.Err, problem.String())
		}
		return rules.Set{}, fmt.Errorf("%s: %s: correct the policies first, see weir lint", flag, cli.Count(n, "problem", "problems"))
	}
	if len(compiled.Rules.Rules) == 0 {
		return rules.Set{}, fmt.Errorf("%s: there is no enforced policy in %s: a replay needs at least one", flag, path)
	}
	return compiled.Rules, nil
}

// domainOf returns the domain of requests whose record has no domain.
func (f *replayFlags) domainOf(set *rules.Set) (string, error) {
	if f.domain != "" {
		return f.domain, nil
	}
	domains := map[string]bool{}
	for i := range set.Rules {
		r := &set.Rules[i]
		if r.Match.Kubernetes != nil || r.AllDomains { // requests of all domains, or whose domain is in the record
			continue
		}
		for _, d := range append([]string{r.Domain}, r.Domains...) {
			if d != "" {
				domains[d] = true
			}
		}
	}
	names := slices.Sorted(maps.Keys(domains))
	switch {
	case len(names) == 0:
		return policyfile.DefaultNamespace, nil
	case len(names) == 1:
		return names[0], nil
	default:
		return "", errors.New("the policies are in several namespaces: choose that of the requests with --domain, one of " + strings.Join(names, ", "))
	}
}
