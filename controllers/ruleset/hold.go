package ruleset

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

// hold keeps what is in force for a Limiter whose selectors cannot be used: nobody knows what it means to select, and to take
// all of its limits away is not it. A Limiter that never had a rule set selects nothing.
func (e *enforcer) hold(ctx context.Context, limiter *v1alpha1.Limiter, found gathered) error {
	before := e.compiled
	if before != nil && before.limiter.uid == limiter.UID {
		if !before.held {
			e.compiled = before.hold(each(found.Policies))
			e.edits = e.metrics.compiled(e.name, e.edits, before, e.compiled, e.Clock())
		}
		return nil
	}
	data, err := e.inForce(ctx, limiter)
	if err != nil {
		return fmt.Errorf("the rule set %s in force: %w", limiter.Status.Revision, err)
	}
	if data == nil {
		e.compile(limiter, compile.Policies{}, found.namespaces)
		return nil
	}
	set, err := rules.DecodeAs(data, limiter.Status.Revision)
	if err != nil {
		return fmt.Errorf("the rule set %s in force: %w", limiter.Status.Revision, err)
	}
	held := e.lookUp(set, nil)
	held.held, held.limiter = true, markOf(limiter)
	held.data, held.revision = data, limiter.Status.Revision // as another build may have written it
	held.adopt(found, compile.IdentityOf(&limiter.Spec))
	e.compiled = held
	e.known.learn(held.revision, held.ruleRevisions())
	e.edits = e.metrics.compiled(e.name, e.edits, nil, held, e.Clock())
	return nil
}

// hold is c without the policies that do not compile: whether they are still selected nobody knows, and what is wrong with
// them is told of all that nobody selects.
func (c *compiled) hold(policies []policy) *compiled {
	held := *c
	held.held, held.problems, held.input = true, map[key][]compile.Problem{}, maps.Clone(c.input)
	for _, p := range policies {
		if len(c.problems[p.key()]) > 0 {
			delete(held.input, p.GetUID())
		}
	}
	return &held
}

// adopt finds out which policies the rule set c holds, and in which generation; 0 stands for an earlier one than is there.
func (c *compiled) adopt(found gathered, identity compile.Identity) {
	holds := func(name string) bool { _, is := c.rules[name]; return is }
	still := compile.Policies{Namespaces: found.Namespaces}
	for i := range found.Namespaced {
		if holds(compile.Name(&found.Namespaced[i])) {
			still.Namespaced = append(still.Namespaced, found.Namespaced[i])
		}
	}
	for i := range found.Cluster {
		if holds(compile.ClusterName(&found.Cluster[i])) {
			still.Cluster = append(still.Cluster, found.Cluster[i])
		}
	}
	result := still.Compile(identity)
	c.overridden = overriddenBy(result.Overrides)
	same := map[string]bool{}
	for i := range result.Set.Rules {
		rule := &result.Set.Rules[i]
		same[rule.Policy] = rule.Revision() == c.rules[rule.Policy].revision
	}
	for _, p := range each(still) {
		c.input[p.GetUID()] = 0
		if same[p.name] {
			c.input[p.GetUID()] = p.GetGeneration()
		}
	}
}

// inForce is the rule set that the Limiter's status names, from the snapshot or from Redis; nil if the status names none, or
// neither has it.
func (e *enforcer) inForce(ctx context.Context, limiter *v1alpha1.Limiter) ([]byte, error) {
	revision := limiter.Status.Revision
	if revision == "" {
		return nil, nil
	}
	var kept corev1.ConfigMap
	if err := e.Uncached.Get(ctx, e.snapshotName(), &kept); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", e.snapshotName(), err)
	}
	if data := kept.BinaryData[snapshotKey]; data != nil {
		if _, err := rules.DecodeAs(data, revision); err == nil {
			return data, nil
		}
	}
	if err := e.connect(ctx, limiter); err != nil {
		return nil, err
	}
	data, _, err := e.store.Load(ctx, revision)
	return data, err
}
