// Package directory compiles the policies in a directory, for `weir serve` and for Go programs. An invalid edit keeps the rules before it.
package directory

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/source"
)

// Directory compiles the policies in a directory. A source.Files calls its methods one at a time.
type Directory struct {
	Path     string
	Identity compile.Identity
	// Schema returns the schema of one load, so that a large one is in memory only for that time.
	Schema  func() (policyfile.Schema, error)
	Install source.Apply
	Log     *slog.Logger
	Active  rules.Set
	loaded  source.Loaded // by the last load without an error
}

// Load is a source.Load. It compiles the files only if they have changed: that takes 50 ms of a processor or more, for which requests
// would wait at each poll.
func (d *Directory) Load() (source.Loaded, error) {
	files, err := policyfile.Read(nil, d.Path)
	if err != nil {
		return source.Loaded{}, err
	}
	version := versionOf(files)
	if version == d.loaded.Version {
		return d.loaded, nil
	}
	schema, err := d.Schema()
	if err != nil {
		return source.Loaded{}, err
	}
	result := policyfile.NewLoader(d.Identity, schema).Compile(files)
	problems := make([]source.Problem, len(result.Problems))
	for i, p := range result.Problems {
		problems[i] = source.Problem{
			File: p.File, Line: p.Line, Policy: p.Policy, Field: p.Field, Message: strings.ReplaceAll(p.Message, "\n", " "),
		}
	}
	set, kept := retain(result.Rules, d.Active, result.Problems)
	d.loaded = source.Loaded{Version: version, Set: set, Problems: problems, Kept: kept}
	return d.loaded, nil
}

// versionOf returns a hash of the names and contents of files.
func versionOf(files []policyfile.File) string {
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%q %d\n%s", f.Name, len(f.Content), f.Content)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Apply is a source.Apply. It warns about each change to a set without rules.
func (d *Directory) Apply(set rules.Set, revision string) error {
	if err := d.Install(set, revision); err != nil {
		return err
	}
	d.Active = set
	for i := range set.Rules {
		if match := &set.Rules[i].Match; match.Routes != nil && len(match.Routes) == 0 {
			d.Log.Warn("the policy limits no requests: its targetRefs are Gateways, whose routes only the operator of a cluster knows; "+
				"use match.http, or targetRefs with routes", "policy", set.Rules[i].Policy, "policies", d.Path)
		}
	}
	if len(set.Rules) == 0 {
		d.Log.Warn("no policy is enforced: all requests are allowed", "policies", d.Path)
	}
	return nil
}

// retain returns set plus each rule of before that is missing from set because of a problem: an invalid edit must not lift a limit. kept lists the
// policies of these rules. A problem without the name of a policy concerns a file that is not valid YAML; the file may have contained any rule. A rule is
// not missing if set has other rates of its policy, or a policy with its counters: each request would count twice on them.
func retain(set, previous rules.Set, problems []policyfile.Problem) (_ rules.Set, kept []string) {
	if len(problems) == 0 {
		return set, nil
	}
	list := slices.Clone(set.Rules)
	isIn := make(map[string]bool, len(set.Rules)) // policies, and names of counters
	for i := range set.Rules {
		isIn[set.Rules[i].PolicyName()], isIn[set.Rules[i].CounterScope()] = true, true
	}
	for _, rule := range previous.Rules {
		replaced := isIn[rule.PolicyName()] || isIn[rule.CounterScope()]
		blamed := func(p policyfile.Problem) bool { return p.Policy == "" || p.Policy == rule.PolicyName() }
		if !replaced && slices.ContainsFunc(problems, blamed) {
			list, kept = append(list, rule), append(kept, rule.Policy)
		}
	}
	slices.SortFunc(list, byPolicy)
	set.Rules = list
	set.HashKey = cmp.Or(set.HashKey, previous.HashKey) // of the same process
	return set, kept
}

func byPolicy(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) }
