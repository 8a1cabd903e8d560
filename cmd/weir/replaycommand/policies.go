package replaycommand

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/replay"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

// maxProblems is the number of problems of policies that are printed.
const maxProblems = 20

// loaded is what the files of a command line have.
type loaded struct {
	options  *replay.Options
	proposal *proposal // nil without --axis
	clients  *clients  // nil without trusted proxies
	notes    []string
}

// load compiles the policies.
func (f *replayFlags) load(streams cli.Streams) (*loaded, error) {
	key, err := cli.ReadHashKey(f.hashKey)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	if key == nil {
		key = limiter.RandomHashKey()
	}
	schema, err := apischema.New()
	if err != nil {
		return nil, err
	}
	proposal, err := f.proposal()
	if err != nil {
		return nil, cli.UsageError(err)
	}
	c := &compiler{flags: f, notes: streams.Err, schema: schema, key: key}
	if proposal != nil && f.domain == "" && f.policies != "" { // the proposal is for the requests of the other policies
		others, _, err := c.compile("--policies", f.policies, nil, nil)
		if err != nil {
			return nil, err
		}
		if proposal.namespace, err = f.domainOf(&others); err != nil {
			return nil, cli.UsageError(err)
		}
	}
	l, limiter, err := f.compileSides(c, proposal)
	if err != nil {
		return nil, err
	}
	l.options.HashKey = key
	if l.options.Domain, err = f.domainOf(&l.options.Policies); err != nil {
		return nil, cli.UsageError(err)
	}
	if limiter == nil {
		return l, nil
	}
	l.options.Exempt = stored.ExemptionsOf(limiter)
	if l.clients, err = clientsOf(limiter); err != nil {
		return nil, fmt.Errorf("--policies: Limiter %s/%s: %w", limiter.Namespace, limiter.Name, err)
	}
	return l, nil
}

// compileSides compiles the policies and those before a change, each with the identity table of its Limiter, or of the only one. It returns the Limiter
// whose clients and exemptions apply to both; nil without one.
func (f *replayFlags) compileSides(c *compiler, proposal *proposal) (*loaded, *v1alpha1.Limiter, error) {
	set, limiter, err := c.compile("--policies", f.policies, proposal, nil)
	if err != nil {
		return nil, nil, err
	}
	if f.limiter != "" && limiter == nil {
		return nil, nil, cli.UsageError(fmt.Errorf("--limiter: --policies has no valid Limiter %s", f.limiter))
	}
	l := &loaded{options: &replay.Options{Policies: set, Exempt: exempt.With("", exempt.Lists{})}, proposal: proposal}
	if f.before == "" {
		return l, limiter, nil
	}
	before, beforeLimiter, err := c.compile("--policies-before", f.before, nil, limiter)
	if err != nil {
		return nil, nil, err
	}
	l.options.Before = &before
	if limiter == nil && beforeLimiter != nil {
		if l.options.Policies, limiter, err = c.compile("--policies", f.policies, proposal, beforeLimiter); err != nil {
			return nil, nil, err
		}
	}
	l.noteDifference(limiter, beforeLimiter)
	return l, limiter, nil
}

// compiler compiles policies with the identity table of the Limiter in their files.
type compiler struct {
	flags  *replayFlags
	notes  io.Writer // for the problems of policies
	schema policyfile.Schema
	key    *limiter.HashKey
}

// compile returns the rules of the policies at a path, and of a proposal, and the Limiter whose settings apply. It is other if the path has no Limiter.
func (c *compiler) compile(flag, path string, proposal *proposal, other *v1alpha1.Limiter) (rules.Set, *v1alpha1.Limiter, error) {
	var files []policyfile.File
	if path != "" {
		var err error
		if files, err = policyfile.Read(nil, path); err != nil {
			return rules.Set{}, nil, cli.UsageError(fmt.Errorf("%s: %w", flag, err))
		}
	}
	if proposal != nil {
		files = append(files, proposal.file())
	}
	compiled := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(c.key), c.schema).Compile(files)
	limiter, err := c.flags.limiterIn(compiled.Limiters())
	if err != nil {
		return rules.Set{}, nil, cli.UsageError(fmt.Errorf("%s: %w", flag, err))
	}
	if limiter == nil {
		limiter = other
	}
	if limiter != nil {
		compiled = policyfile.NewLoader(stored.IdentityOf(&limiter.Spec).WithHashKey(c.key), c.schema).Compile(files)
	}
	if n := len(compiled.Problems); n > 0 {
		for _, problem := range compiled.Problems[:min(n, maxProblems)] {
			terminal.Println(c.notes, problem.String())
		}
		return rules.Set{}, nil, fmt.Errorf("%s: %s: correct the policies first, see weir lint", flag, cli.Count(n, "problem", "problems"))
	}
	if len(compiled.Rules.Rules) == 0 {
		return rules.Set{}, nil, fmt.Errorf("%s: there is no enforced policy in %s: a replay needs at least one", flag, path)
	}
	return compiled.Rules, limiter, nil
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
