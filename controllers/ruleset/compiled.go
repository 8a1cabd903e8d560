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

// compiled is what the policies that a Limiter selects come out as. It does not change once it is made.
type compiled struct {
	limiter    mark
	held       bool                // it is kept from before, for the Limiter's selectors cannot be used
	input      map[types.UID]int64 // generations of the policies
	namespaces uint64              // as gathered; 0 if the rule set asks nothing of them
	revision   string              // of the rule set
	data       []byte              // the rule set, encoded
	rules      map[string]enforced // by name
	problems   map[key][]compile.Problem
	// overridden is what is to be told of policies that decide nothing, by the name in rules.
	overridden map[string]overridden
}

// mark is a Limiter in one generation.
type mark struct {
	uid        types.UID
	generation int64
}

func markOf(limiter *v1alpha1.Limiter) mark { return mark{limiter.UID, limiter.Generation} }

// overridden is why a policy decides nothing in some domain. The zero value is no reason.
type overridden struct {
	reason, message string
}

// enforced is what one policy came out as.
type enforced struct {
	name      string // of the policy
	revision  string // of the rule
	effective v1alpha1.EffectivePolicy
}

// compile makes e.compiled that of the policies, unless it is.
func (e *enforcer) compile(limiter *v1alpha1.Limiter, selected compile.Policies, namespaces uint64) {
	limiterMark, policies := markOf(limiter), each(selected)
	if e.compiled.of(limiterMark, policies, namespaces) {
		return
	}
	result := selected.Compile(compile.IdentityOf(&limiter.Spec))
	before := e.compiled
	after := e.lookUp(result.Set, before)
	after.limiter = limiterMark
	if asksOfNamespaces(result.Set) {
		after.namespaces = namespaces
	}
	for _, p := range policies {
		after.input[p.GetUID()] = p.GetGeneration()
	}
	for _, p := range result.Problems {
		k := key{p.Policy, p.Cluster}
		after.problems[k] = append(after.problems[k], p)
	}
	after.overridden = overriddenBy(result.Overrides)
	e.compiled = after
	e.known.learn(after.revision, after.ruleRevisions())
	e.edits = e.metrics.compiled(e.name, e.edits, before, after, e.Clock())
}

// asksOfNamespaces says whether the set can change with a namespace.
func asksOfNamespaces(set rules.Set) bool {
	return slices.ContainsFunc(set.Rules, func(r rules.Rule) bool { return r.Match.Kubernetes != nil })
}

// overriddenBy sums up the overrides of each policy, which stand together.
func overriddenBy(all []compile.Override) map[string]overridden {
	by := map[string]overridden{}
	for from := 0; from < len(all); {
		to := from
		for to < len(all) && all[to].Policy == all[from].Policy {
			to++
		}
		reason, message := compile.Condition(all[from:to])
		by[all[from].Policy] = overridden{reason, message}
		from = to
	}
	return by
}

// of says whether c is what the policies compile to. UID and generation stand for a spec.
func (c *compiled) of(limiter mark, policies []policy, namespaces uint64) bool {
	if c == nil || c.limiter != limiter || len(c.input) != len(policies) || c.namespaces != 0 && c.namespaces != namespaces {
		return false
	}
	for _, p := range policies {
		if generation, ok := c.input[p.GetUID()]; !ok || generation != p.GetGeneration() {
			return false
		}
	}
	return true
}

// lookUp works out what the steps after it ask of a rule set, by policy. What has not changed is the same as before, in memory
// too: known remembers many of them.
func (e *enforcer) lookUp(set rules.Set, before *compiled) *compiled {
	c := &compiled{
		input:    make(map[types.UID]int64, len(set.Rules)),
		rules:    make(map[string]enforced, len(set.Rules)),
		problems: map[key][]compile.Problem{},
	}
	c.data, c.revision = rules.Encode(set)
	for i := range set.Rules {
		rule := &set.Rules[i]
		revision := rule.Revision()
		if was, is := before.rule(rule.Policy); is && was.revision == revision {
			c.rules[was.name] = was
			continue
		}
		effective, err := e.effective(rule)
		if err != nil { // the compiler checks the limit; a rule that fails here would fail in the limiter too
			k := key{rule.Policy, rule.Domain == ""}
			c.problems[k] = []compile.Problem{{Policy: k.name, Cluster: k.cluster, Reason: v1alpha1.ReasonInvalid, Message: err.Error()}}
			continue
		}
		c.rules[rule.Policy] = enforced{name: rule.Policy, revision: revision, effective: effective}
	}
	return c
}

func (e *enforcer) effective(rule *rules.Rule) (v1alpha1.EffectivePolicy, error) {
	keys, err := rule.KeySpace(e.KeyPrefix)
	if err != nil {
		return v1alpha1.EffectivePolicy{}, fmt.Errorf("keys: %w", err)
	}
	return v1alpha1.EffectivePolicy{
		Limit:      rule.Units,
		Window:     (time.Duration(rule.WindowSeconds) * time.Second).String(),
		KeyPattern: keys.Pattern(),
		Script:     v1alpha1.ScriptReference{Name: e.Decider.Name, SHA: e.Decider.SHA},
	}, nil
}

// rule is what the policy of that name came out as. There is none before anything is compiled.
func (c *compiled) rule(name string) (enforced, bool) {
	if c == nil {
		return enforced{}, false
	}
	rule, is := c.rules[name]
	return rule, is
}

func (c *compiled) ruleRevisions() map[string]string {
	revisions := make(map[string]string, len(c.rules))
	for policy, rule := range c.rules {
		revisions[policy] = rule.revision
	}
	return revisions
}
