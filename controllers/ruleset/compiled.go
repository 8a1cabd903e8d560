package ruleset

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

// compiled is what the policies come out as.
type compiled struct {
	input    map[types.UID]int64 // generations of the policies
	revision string              // of the rule set; empty before the first compilation
	data     []byte              // the rule set, encoded
	rules    map[string]enforced // by name
	problems map[key][]compile.Problem
	// overridden is what is to be told of policies that decide nothing, by the name in rules.
	overridden map[string]overridden
}

// overridden is why a policy decides nothing in some domain. The zero value is no reason.
type overridden struct {
	reason, message string
}

// enforced is what one policy came out as.
type enforced struct {
	revision  string // of the rule
	effective v1alpha1.EffectivePolicy
}

// compile makes r.compiled that of the policies, unless it is.
func (r *Reconciler) compile(gathered compile.Policies, policies []policy) {
	if r.compiled.of(policies) {
		return
	}
	result := gathered.Compile(r.Identity)
	before := r.compiled
	r.compiled = r.lookUp(result.Set)
	for _, p := range policies {
		r.compiled.input[p.GetUID()] = p.GetGeneration()
	}
	for _, p := range result.Problems {
		k := key{p.Policy, p.Cluster}
		r.compiled.problems[k] = append(r.compiled.problems[k], p)
	}
	for from, all := 0, result.Overrides; from < len(all); { // those of one policy stand together
		to := from
		for to < len(all) && all[to].Policy == all[from].Policy {
			to++
		}
		reason, message := compile.Condition(all[from:to])
		r.compiled.overridden[all[from].Policy] = overridden{reason, message}
		from = to
	}
	r.known.learn(r.compiled.revision, r.compiled.ruleRevisions())
	r.metrics.compiled(before, r.compiled, r.Clock())
}

// of says whether c is what the policies compile to. UID and generation stand for a spec.
func (c compiled) of(policies []policy) bool {
	if c.revision == "" || len(c.input) != len(policies) {
		return false
	}
	for _, p := range policies {
		if generation, ok := c.input[p.GetUID()]; !ok || generation != p.GetGeneration() {
			return false
		}
	}
	return true
}

// lookUp works out what the steps after it ask of a rule set, by policy.
func (r *Reconciler) lookUp(set rules.Set) compiled {
	c := compiled{
		input:      make(map[types.UID]int64, len(set.Rules)),
		rules:      make(map[string]enforced, len(set.Rules)),
		problems:   map[key][]compile.Problem{},
		overridden: map[string]overridden{},
	}
	c.data, c.revision = rules.Encode(set)
	for i := range set.Rules {
		rule := &set.Rules[i]
		effective, err := r.effective(rule)
		if err != nil { // the compiler checks the limit; a rule that fails here would fail in the limiter too
			k := key{rule.Policy, rule.Domain == ""}
			c.problems[k] = []compile.Problem{{Policy: k.name, Cluster: k.cluster, Reason: v1alpha1.ReasonInvalid, Message: err.Error()}}
			continue
		}
		c.rules[rule.Policy] = enforced{revision: rule.Revision(), effective: effective}
	}
	return c
}

func (r *Reconciler) effective(rule *rules.Rule) (v1alpha1.EffectivePolicy, error) {
	keys, err := rule.KeySpace(r.KeyPrefix)
	if err != nil {
		return v1alpha1.EffectivePolicy{}, fmt.Errorf("keys: %w", err)
	}
	return v1alpha1.EffectivePolicy{
		Limit:      rule.Units,
		Window:     (time.Duration(rule.WindowSeconds) * time.Second).String(),
		KeyPattern: keys.Pattern(),
		Script:     v1alpha1.ScriptReference{Name: r.Decider.Name, SHA: r.Decider.SHA},
	}, nil
}

func (c compiled) ruleRevisions() map[string]string {
	revisions := make(map[string]string, len(c.rules))
	for policy, rule := range c.rules {
		revisions[policy] = rule.revision
	}
	return revisions
}
