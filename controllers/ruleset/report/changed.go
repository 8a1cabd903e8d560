package report

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// changedPolicies are the policies whose statuses can depend on a difference of the states of Limiters. It has too many rather than too few.
type changedPolicies struct {
	all   bool
	names map[string]bool // in rules
	uids  map[types.UID]bool
}

func (c *changedPolicies) addName(name string) { c.names[name] = true }

func (c *changedPolicies) addUID(uid types.UID) { c.uids[uid] = true }

// has reports whether the status of the policy can differ.
func (c *changedPolicies) has(policy selection.Key, uid types.UID) bool {
	return c.all || c.names[policy.Name] || c.uids[uid]
}

// evaluatedStates are the states that all statuses were made from.
type evaluatedStates struct {
	states   []LimiterState
	webhooks map[types.UID]Webhook
	compiled uint64 // see selection.Unselected.Compiled
}

// replace replaces the states, and returns the policies whose statuses can depend on the difference.
func (e *evaluatedStates) replace(states []LimiterState, webhooks map[types.UID]Webhook, unselected *selection.Unselected) changedPolicies {
	before := *e
	*e = evaluatedStates{states, webhooks, unselected.Compiled()}
	changed := changedPolicies{names: map[string]bool{}, uids: map[types.UID]bool{}}
	if len(before.states) != len(states) || before.states == nil {
		changed.all = true
		return changed
	}
	for i := range states {
		changed.addLimiter(&before.states[i], &states[i])
		changed.addWebhook(before.webhooks, webhooks, states[i].RuleSet.Limiter.UID)
		if changed.all {
			return changed
		}
	}
	if before.compiled != e.compiled {
		for uid := range unselected.Policies() {
			changed.addUID(uid)
		}
	}
	return changed
}

// addLimiter adds the policies whose statuses depend on the difference of two states.
func (c *changedPolicies) addLimiter(before, after *LimiterState) {
	if before.Limiter != after.Limiter || before.RuleSet.Limiter.UID != after.RuleSet.Limiter.UID ||
		before.SelectionUnknown || after.SelectionUnknown || before.NoReadyPods != after.NoReadyPods ||
		before.RuleSet.Unreadable != after.RuleSet.Unreadable || !sameForAll(&before.Delivery, &after.Delivery) {
		c.all = true
		return
	}
	diff(before.NotAdmitted, after.NotAdmitted, c.addUID)
	after.RuleSet.Differences(before.RuleSet, func(policy selection.Key) { c.addName(policy.Name) }, c.addUID)
	diff(before.Delivery.Crowded, after.Delivery.Crowded, c.addName)
	after.Delivery.NewlyDecided(before.Delivery, c.addName)
	c.addReplicas(before.Delivery.Replicas, after.Delivery.Replicas, after.RuleSet)
}

// sameForAll reports whether the deliveries differ only in what concerns single policies.
func sameForAll(a, b *publish.Delivery) bool {
	return a.Connecting == b.Connecting && a.Outage.Reason == b.Outage.Reason && a.Outage.Message == b.Outage.Message &&
		a.Rejected == b.Rejected && a.NotReporting == b.NotReporting && a.Silent == b.Silent &&
		a.Serving() == b.Serving() && a.HasHeartbeats() == b.HasHeartbeats() && len(a.Replicas) == len(b.Replicas)
}

// addReplicas adds the policies whose rules are not the same in all rule sets that replicas enforce, before or after: as many replicas enforce the
// rules of the others.
func (c *changedPolicies) addReplicas(before, after []publish.ServingReplica, latest *selection.RuleSet) {
	sets := map[string]map[string]string{}
	for _, r := range before {
		sets[r.Revision] = r.Rules
	}
	for _, r := range after {
		if rules, known := sets[r.Revision]; known && len(rules) != len(r.Rules) { // one could not be read
			c.all = true
			return
		}
		sets[r.Revision] = r.Rules
	}
	first, compared := latest.Revision, sets[latest.Revision]
	if _, enforced := sets[first]; !enforced {
		for first, compared = range sets {
			break
		}
	}
	for revision, rules := range sets {
		if changed, known := latest.ChangedSince(revision); known && first == latest.Revision && len(rules) > 0 && len(compared) > 0 {
			for _, name := range changed {
				c.addName(name)
			}
		} else if revision != first {
			diff(compared, rules, c.addName)
		}
	}
}

// diff adds the keys of the elements that differ.
func diff[K, V comparable](a, b map[K]V, add func(K)) {
	selection.MapDifferences(a, b, func(a, b V) bool { return a == b }, add)
}

// addWebhook adds the policies for which API servers call the Limiter in another way.
func (c *changedPolicies) addWebhook(before, after map[types.UID]Webhook, limiter types.UID) {
	a, wasKnown := before[limiter]
	b, isKnown := after[limiter]
	if wasKnown != isKnown || a.Problem != b.Problem {
		c.all = true
		return
	}
	diff(a.Covers, b.Covers, c.addUID)
}
