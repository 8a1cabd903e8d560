package ruleset

import (
	"fmt"
	"slices"
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
	rules    map[string]enforced
	problems map[string][]compile.Problem
}

// enforced is what one policy came out as.
type enforced struct {
	revision  string // of the rule
	effective v1alpha1.EffectivePolicy
}

// existing leaves out the policies that are being deleted.
func existing(policies []v1alpha1.RateLimitPolicy) []v1alpha1.RateLimitPolicy {
	return slices.DeleteFunc(policies, func(p v1alpha1.RateLimitPolicy) bool { return p.DeletionTimestamp != nil })
}

// compile makes r.compiled that of the policies, unless it is.
func (r *Reconciler) compile(policies []v1alpha1.RateLimitPolicy) {
	if r.compiled.of(policies) {
		return
	}
	set, problems := compile.Compile(policies, r.Identity)
	before := r.compiled
	r.compiled = r.lookUp(set)
	for i := range policies {
		r.compiled.input[policies[i].UID] = policies[i].Generation
	}
	for _, p := range problems {
		r.compiled.problems[p.Policy] = append(r.compiled.problems[p.Policy], p)
	}
	r.known.learn(r.compiled.revision, r.compiled.ruleRevisions())
	r.metrics.compiled(before, r.compiled, r.Clock())
}

// of says whether c is what the policies compile to. UID and generation stand for a spec.
func (c compiled) of(policies []v1alpha1.RateLimitPolicy) bool {
	if c.revision == "" || len(c.input) != len(policies) {
		return false
	}
	for i := range policies {
		if generation, ok := c.input[policies[i].UID]; !ok || generation != policies[i].Generation {
			return false
		}
	}
	return true
}

// lookUp works out what the steps after it ask of a rule set, by policy.
func (r *Reconciler) lookUp(set rules.Set) compiled {
	c := compiled{
		input:    make(map[types.UID]int64, len(set.Rules)),
		rules:    make(map[string]enforced, len(set.Rules)),
		problems: map[string][]compile.Problem{},
	}
	c.data, c.revision = rules.Encode(set)
	for i := range set.Rules {
		rule := &set.Rules[i]
		effective, err := r.effective(rule)
		if err != nil { // the compiler checks the limit; a rule that fails here would fail in the limiter too
			c.problems[rule.Policy] = []compile.Problem{{Policy: rule.Policy, Reason: v1alpha1.ReasonInvalid, Message: err.Error()}}
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
